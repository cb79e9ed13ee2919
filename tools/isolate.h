// A case in a process of its own, so that its crash, or its never ending, hides no other case.
#pragma once

#include <functional>
#include <string>

#include "tools/run_case.h"

namespace tapegrad::tools {

/// A folder that is removed with all it holds.
class TemporaryFolder {
 public:
  TemporaryFolder();  // IoError when none can be made
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string file(const std::string& name) const { return path_ + '/' + name; }

 private:
  std::string path_;
};

/// Runs `run` in a forked child, whose results come back in a file of the folder. The outcome is
/// `crash` when the child is killed or ends without an answer, `timeout` when it has none after so
/// many seconds. This process must not have run an op before: threads do not survive a fork.
Outcome run_isolated(const CaseLine& line, double timeout, const TemporaryFolder& folder,
                     const std::function<Outcome(TensorMap& results)>& run, TensorMap& results);

}  // namespace tapegrad::tools
