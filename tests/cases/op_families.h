// The families of the case table.
#pragma once

#include "tests/cases/op_case.h"

namespace tapegrad::testing {

struct CaseFamily {
  const char* name;
  OpCases cases;
};
/// Returns all families; the rows are not copied.
const std::vector<CaseFamily>& case_families();

}  // namespace tapegrad::testing
