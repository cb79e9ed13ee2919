// Which kernels really ran: for bug reports, tools and tests.
//
//   DispatchLog log;
//   softmax(x, 1);
//   log.kernels();            // {"cpu/float32/softmax"}
//   log.calls("softmax");     // 1
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tapegrad {

/// Records the kernels dispatched on all threads while the object lives. While a log exists, each
/// dispatch takes a lock; otherwise logging costs nothing.
class DispatchLog {
 public:
  DispatchLog();
  ~DispatchLog();
  DispatchLog(const DispatchLog&) = delete;
  DispatchLog& operator=(const DispatchLog&) = delete;

  /// "device/dtype/kernel", each once, in the order of their first calls.
  std::vector<std::string> kernels() const;
  /// How often a kernel was dispatched, for any device and dtype.
  int64_t calls(std::string_view kernel) const;
  int64_t calls() const;  // of all kernels

 private:
  friend class KernelTable;
  struct Entry {
    std::string name;
    int64_t calls;
  };
  std::vector<Entry> entries_;
};

}  // namespace tapegrad
