#include "tests/op_case.h"

namespace tapegrad::testing {

void matmul_cases(OpCases&) {}

}  // namespace tapegrad::testing
