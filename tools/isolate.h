// Runs a case in a separate process, so that a crash or an endless loop does not affect other
// cases.
#pragma once

#include <functional>
#include <string>

#include "tools/run_case.h"

namespace tapegrad::tools {

/// A temporary folder, removed with its content by the destructor.
class TemporaryFolder {
 public:
  TemporaryFolder();  // throws IoError if it cannot be created
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string file(const std::string& name) const { return path_ + '/' + name; }

 private:
  std::string path_;
};

/// Runs `run` in a forked child, which returns its results in a file of the folder. The outcome is
/// `crash` if the child is killed or ends without an answer, `timeout` if it takes more than
/// `timeout` seconds. This process must not have run an op before, since threads do not survive a
/// fork.
Outcome run_isolated(const CaseLine& line, double timeout, const TemporaryFolder& folder,
                     const std::function<Outcome(TensorMap& results)>& run, TensorMap& results);

}  // namespace tapegrad::tools
