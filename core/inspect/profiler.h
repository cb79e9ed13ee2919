// Profiler: where the time goes, by part of the model and op.
//
//   Profiler profiler;                    // watches this thread
//   for (int i = 0; i < 20; ++i) step();
//   profiler.stop();
//   profiler.print(std::cout, {.steps_per_epoch = 469});
//   profiler.save_trace("step.json");     // for chrome://tracing and ui.perfetto.dev
//
//   part, op                  pass          calls    ms/step   share   GFLOP/s      GB/s
//   Sequential.2                                      27.185   53.8%     299.9       2.6
//     conv2d                  backward         24     19.454   38.5%     279.4       2.1
//     conv2d                  forward          24      7.731   15.3%     351.6       3.9
//   Sequential.7                                       7.633   15.1%     118.7       3.7
//   ...
//
// An op of the forward pass has its own time, without that of ops it is composed of; a rule of the
// backward pass has all of its time; a step of an optimizer is one entry. On a GPU these are the
// times that the calls take, unless TAPEGRAD_CUDA_BLOCKING=1. Off, it costs three predicted
// branches an op.
//
// Bytes are those of the tensors that kernels are given, each once, which is what must move at
// least; floating-point operations those of products and convolutions by their formulas, whatever
// the algorithm.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dispatch/span.h"

namespace tapegrad {

struct ProfileEntry {
  std::string part = {};  // "Net.fc1"; empty outside of modules
  std::string op = {};    // as in docs/ops.md, or the optimizer's name
  Pass pass = Pass::kForward;
  int64_t calls = 0;
  double seconds = 0;
  KernelWork work = {};

  double gflops_per_second() const { return seconds > 0 ? double(work.flops) / seconds * 1e-9 : 0; }
  double gbytes_per_second() const { return seconds > 0 ? double(work.bytes) / seconds * 1e-9 : 0; }
};

struct ProfilerOptions {
  int64_t max_events = 1'000'000;  // of the trace; later ones count in the entries only
};

struct ProfileTable {
  std::optional<Pass> pass = {};  // shown alone, and shares are of its time
  int64_t steps_per_epoch = 0;    // adds how long an epoch takes at this speed
};

class Profiler {
 public:
  explicit Profiler(ProfilerOptions options = {});
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// It sees nothing more; one that was watching before goes on. A second call does nothing.
  void stop();

  /// One for each part, op and pass, the longest time first.
  std::vector<ProfileEntry> entries() const;
  double seconds(Pass pass) const;
  /// Of training: the steps of the optimizer that made most of them.
  int64_t steps() const;

  /// The parts, and in each its entries, the longest time first; those that have less than a
  /// thousandth of the time are left out. Then the passes, and the epoch if it is asked for. Times
  /// are those of one step if an optimizer made some, else of all.
  void print(std::ostream& out, ProfileTable table = {}) const;
  /// The format of Chrome's trace viewer. IoError when the file cannot be written.
  void save_trace(const std::string& path) const;

 private:
  friend class OpSpan;
  friend class KernelSpan;
  struct Record;
  Record* record_;
};

/// print()
std::ostream& operator<<(std::ostream& out, const Profiler& profiler);

}  // namespace tapegrad
