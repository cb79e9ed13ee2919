#include "tests/op_case.h"

namespace tapegrad::testing {

void pool_cases(OpCases&) {}

}  // namespace tapegrad::testing
