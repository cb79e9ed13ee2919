#include "tests/op_case.h"

namespace tapegrad::testing {

void conv_cases(OpCases&) {}

}  // namespace tapegrad::testing
