// The selected cases of a command, and the tensors that they name.
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

/// Reads both files and keeps the cases that match --filter. Throws UsageError for an invalid
/// regular expression.
Selection select_cases(const OpOptions& options);

/// Counts the results of cases, and reports cases with an unexpected result on stderr.
class Tally {
 public:
  void add(const CaseLine& line, const Outcome& outcome);
  ExitStatus finish() const;  // prints the counts

 private:
  int count_ = 0;
  int unexpected_ = 0;
  int crashed_ = 0;
};

}  // namespace tapegrad::tools
