// The cases that a command works on, and the tensors they name.
#pragma once

#include <vector>

#include <tapegrad/core/tensor_map.h>

#include "tools/case_file.h"
#include "tools/options.h"
#include "tools/run_case.h"

namespace tapegrad::tools {

struct Selection {
  std::vector<CaseLine> cases;
  TensorMap tensors;
};

/// Reads both files, and keeps the cases that --filter asks for. UsageError for a wrong expression.
Selection select_cases(const OpOptions& options);

/// Counts how the cases ended and says on stderr which did not end as expected.
class Tally {
 public:
  void add(const CaseLine& line, const Outcome& outcome);
  ExitStatus finish() const;  // prints the count

 private:
  int count_ = 0;
  int unexpected_ = 0;
  int crashed_ = 0;
};

}  // namespace tapegrad::tools
