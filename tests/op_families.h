// The families of the case table.
#pragma once

#include "tests/op_case.h"

namespace tapegrad::testing {

struct CaseFamily {
  const char* name;
  OpCases cases;
};
/// All of them; the rows stay where they are.
const std::vector<CaseFamily>& case_families();

}  // namespace tapegrad::testing
