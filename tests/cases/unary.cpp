#include "tests/op_case.h"

namespace tapegrad::testing {

void unary_cases(OpCases&) {}

}  // namespace tapegrad::testing
