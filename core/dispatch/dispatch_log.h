// DispatchLog: records the kernels that ran, for bug reports, tools and tests.
//
//   DispatchLog log;
//   softmax(x, 1);
//   log.kernels();            // {"cpu/float32/softmax"}
//   log.calls("softmax");     // 1
//   std::cout << log.explain();
//
//   where  kernel       dtype    calls  why
//   cuda   softmax      float32      1  its operands are there
//   cuda   cholesky     float32      1  copied to the CPU and back: no kernel for a GPU
//   cpu    exp          float32      1  its operands are on the CPU, although the default device
//   ...
//
// If a kernel has several implementations (core/dispatch/implementations.h), the entry names the
// one that ran: "cpu/float32/conv2d:dnnl".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/device.h"
#include "core/base/dtype.h"

namespace tapegrad {

class KernelTable;
namespace detail {
void note_implementation(const KernelTable&, DeviceType, DType, std::string_view);
}

/// Records the kernels dispatched on all threads while the object lives. While a log exists, each
/// dispatch takes a lock; otherwise logging costs nothing.
class DispatchLog {
 public:
  DispatchLog();
  ~DispatchLog();
  DispatchLog(const DispatchLog&) = delete;
  DispatchLog& operator=(const DispatchLog&) = delete;

  /// Returns "device/dtype/kernel" or "device/dtype/kernel:implementation", each once, in the order
  /// of the first calls.
  std::vector<std::string> kernels() const;
  /// Returns how often a kernel, such as "conv2d", or one of its implementations, such as
  /// "conv2d:dnnl", was dispatched, over all devices and dtypes.
  int64_t calls(std::string_view kernel) const;
  int64_t calls() const;  // of all kernels
  /// Returns a table of the kernels with the device, the number of calls and the reason for the
  /// device.
  std::string explain() const;

 private:
  friend class KernelTable;
  friend void detail::note_implementation(const KernelTable&, DeviceType, DType, std::string_view);
  static void note(const std::string& entry);  // in all logs; requires their lock
  static void note_copied(const std::string& entry);

  struct Entry {
    std::string name;
    int64_t calls;
    bool is_copied = false;  // the kernel copies its operands to the CPU
  };
  std::vector<Entry> entries_;
};

}  // namespace tapegrad
