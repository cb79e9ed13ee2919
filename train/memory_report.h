// What memory is used for, at the moment of the call.
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

/// What to tell apart; what is left out counts as other.
struct MemoryReportOptions {
  const nn::Module* model = nullptr;
  const optim::Optimizer* optimizer = nullptr;
  Variable tape = {};  // a result, as the loss: what its history has saved for backward()
  std::vector<Variable> data = {};
  Device device = default_device();
};

/// Bytes. Each buffer counts once, in the first of the categories that it belongs to: a weight that
/// a rule keeps is a weight.
struct MemoryReport {
  struct Part {
    std::string name = {};  // "Net.fc1"; empty outside of modules
    int64_t bytes = 0;
  };

  int64_t weights = 0;    // parameters and buffers
  int64_t gradients = 0;  // of the parameters
  int64_t optimizer = 0;  // its state
  int64_t data = 0;
  std::vector<Part> saved;  // by the ops of each part, in the order in which they ran
  int64_t other = 0;        // further tensors, and what the allocator rounds up

  int64_t in_use = 0;     // all of it
  int64_t outside = 0;    // of it not from the allocator: less than a kilobyte each, or wrapped
  int64_t workspace = 0;  // how much more was in use at the peak, since reset_peak_memory()
  int64_t cached = 0;     // freed, kept by the allocator for reuse

  int64_t saved_bytes() const;
};
/// The table above, in units of 2^20 bytes.
std::ostream& operator<<(std::ostream& out, const MemoryReport& report);

/// in_use - outside is what memory_stats() says. AutogradError when the tape has no history; a part
/// of it that a backward() has freed saves nothing.
MemoryReport memory_report(const MemoryReportOptions& options = {});

}  // namespace tapegrad
