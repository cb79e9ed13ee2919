// Reports the use of memory by category at the time of the call.
//
//   Variable loss = cross_entropy(net(x), y);
//   std::cout << memory_report({.model = &net, .optimizer = &adam, .tape = loss, .data = {x, y}});
//
//                                        MiB   share
//   weights                            4.577    8.1%
//   gradients                          4.577    8.1%
//   optimizer state                    9.154   16.1%
//   data                               0.384    0.7%
//   saved for backward                37.692   66.3%
//     Net                             33.125   58.3%
//     Net.fc1                          4.500    7.9%
//     Net.fc2                          0.062    0.1%
//     (outside of modules)             0.005    0.0%
//   other                              0.462    0.8%
//   in use                            56.847  100.0%
//   workspace: 42.646 MiB more at the peak; cached for reuse: 66.278 MiB
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "core/base/device.h"
#include "core/tape/variable.h"

namespace tapegrad {

namespace nn {
class Module;
}
namespace optim {
class Optimizer;
}

/// Objects to report. Memory of objects that are not listed counts as other.
struct MemoryReportOptions {
  const nn::Module* model = nullptr;
  const optim::Optimizer* optimizer = nullptr;
  Variable tape = {};  // a result, such as the loss, whose saved tensors are reported
  std::vector<Variable> data = {};
  Device device = default_device();
};

/// Numbers of bytes. Each buffer counts once, in the first category that contains it: a weight that
/// a node has saved counts as a weight.
struct MemoryReport {
  struct Part {
    std::string name = {};  // "Net.fc1"; empty outside of modules
    int64_t bytes = 0;
  };

  int64_t weights = 0;    // parameters and buffers
  int64_t gradients = 0;  // of the parameters
  int64_t optimizer = 0;  // state of the optimizer
  int64_t data = 0;
  std::vector<Part> saved;  // by the ops of each part, in execution order
  int64_t other = 0;        // other tensors, and rounding by the allocator

  int64_t in_use = 0;     // total
  int64_t outside = 0;    // part of in_use that the allocator does not count
  int64_t workspace = 0;  // additional memory in use at the peak since reset_peak_memory()
  int64_t cached = 0;     // freed, and kept by the allocator for reuse

  int64_t saved_bytes() const;
};
/// Prints the table above, in units of 2^20 bytes.
std::ostream& operator<<(std::ostream& out, const MemoryReport& report);

/// Returns the report. in_use - outside equals memory_stats().in_use. Throws AutogradError if the
/// tape has no history. Nodes that a backward pass has freed have no saved bytes.
MemoryReport memory_report(const MemoryReportOptions& options = {});

}  // namespace tapegrad
