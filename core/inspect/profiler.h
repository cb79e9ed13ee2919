// Profiler: measures time by module and op.
//
//   Profiler profiler;                    // observes this thread
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
// For kernels with several implementations (core/dispatch/implementations.h), a further column
// names the implementations that ran, such as "conv2d:dnnl".
//
// The time of an op in the forward pass excludes the ops that it is composed of. The time of a rule
// in the backward pass includes all ops it runs. An optimizer step is one entry. On a GPU an op's
// time is measured between two events in the stream of the thread, before and after its kernels. No
// op waits for the device, and an op is not charged for the work of earlier ones. Ops of a captured
// step have the times of the capture. Without a profiler the cost is three predicted branches per
// op.
//
// Collectives (dist/) run on a separate thread, which is a row of the trace. The table ends with
// their time and its exposed part, in which this thread waited for them.
//
// Bytes are the sizes of the tensors passed to kernels, each counted once. They are a lower bound
// of the memory traffic. Floating-point operations are those of matrix products and convolutions by
// their formulas, whatever the algorithm.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/device.h"
#include "core/base/output.h"
#include "core/dispatch/span.h"
#include "core/inspect/communication.h"

namespace tapegrad {

struct ProfileEntry {
  std::string part = {};  // "Net.fc1"; empty outside of modules
  std::string op = {};    // name as in docs/ops.md, or of the optimizer
  Pass pass = Pass::kForward;
  int64_t calls = 0;
  double seconds = 0;
  KernelWork work = {};
  /// Implementations that ran, such as "conv2d:dnnl", of kernels with several implementations
  /// (core/dispatch/implementations.h).
  std::vector<std::string> implementations = {};

  double gflops_per_second() const { return seconds > 0 ? double(work.flops) / seconds * 1e-9 : 0; }
  double gbytes_per_second() const { return seconds > 0 ? double(work.bytes) / seconds * 1e-9 : 0; }
};

/// Seconds of collectives, and of these the seconds in which the profiled thread waited.
struct CommunicationTime {
  double busy = 0, exposed = 0;
};

struct ProfilerOptions {
  int64_t max_events = 1'000'000;  // maximum length of the trace; later events count in the entries
                                   // only
  Device device = default_device();  // whose time is measured
};

struct ProfileTable {
  std::optional<Pass> pass = {};  // prints this pass alone; shares refer to its time
  int64_t steps_per_epoch = 0;    // adds the duration of an epoch at this speed
};

class Profiler {
 public:
  explicit Profiler(ProfilerOptions options = {});
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;

  /// Ends the observation; a profiler that was active before continues. A second call has no
  /// effect.
  void stop();

  /// Returns one entry per module, op and pass, the longest time first. Like seconds() and print(),
  /// waits until the device has finished the ops.
  std::vector<ProfileEntry> entries() const;
  double seconds(Pass pass) const;
  /// Returns the number of training steps: the largest number of steps of one optimizer.
  int64_t steps() const;
  CommunicationTime communication() const;

  /// Prints modules and their entries, the longest time first, except those below a thousandth of
  /// the total. The passes follow and, if requested, the epoch. Times are per step if an optimizer
  /// made steps, else in total.
  void print(std::ostream& out, ProfileTable table = {}) const;
  void print(ProfileTable table = {}) const { print(standard_output(), table); }
  /// Writes the format of Chrome's trace viewer. Throws IoError if the file cannot be written.
  void save_trace(const std::string& path) const;

 private:
  friend class OpSpan;
  friend class KernelSpan;
  friend void note_communication(std::string_view, double, double, double);
  struct Record;
  Record* record_;
};

/// Equivalent to print().
std::ostream& operator<<(std::ostream& out, const Profiler& profiler);

}  // namespace tapegrad
