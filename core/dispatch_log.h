// Which kernels really ran: for bug reports, tools and tests.
//
//   DispatchLog log;
//   softmax(x, 1);
//   log.kernels();   // {"cpu/float32/softmax"}
#pragma once

#include <string>
#include <vector>

namespace tapegrad {

/// Collects the kernels that are dispatched while it lives, on any thread. Without one, a dispatch
/// costs what it always does; with one, it takes a lock.
class DispatchLog {
 public:
  DispatchLog();
  ~DispatchLog();
  DispatchLog(const DispatchLog&) = delete;
  DispatchLog& operator=(const DispatchLog&) = delete;

  /// "device/dtype/kernel", each once, in the order of their first calls.
  std::vector<std::string> kernels() const;

 private:
  friend class KernelTable;
  std::vector<std::string> kernels_;
};

}  // namespace tapegrad
