// Timers: seconds per phase of a training step, and the cost of a call.
#pragma once

#include <array>
#include <functional>
#include <iosfwd>
#include <string_view>
#include <vector>

#include "core/base/device.h"
#include "core/base/output.h"
#include "core/inspect/moment.h"

namespace tapegrad {

enum class StepPhase { kData, kForward, kBackward, kUpdate, kEvaluate };
inline constexpr int kPhaseCount = 5;
inline constexpr std::string_view kPhaseNames[kPhaseCount] = {"data", "forward", "backward",
                                                              "update", "evaluate"};

/// Returns the seconds of a monotonic clock.
double steady_seconds();

/// Sums the time between marks by phase. On a GPU a mark is an event in the current stream: a phase
/// takes as long as the device works on it, independent of the host, and no mark waits. Marks in a
/// step that is being captured are ignored.
///
///   StepTimer timer;
///   for (auto& [x, y] : loader) {
///     timer.mark(StepPhase::kData);          // since the last mark, or since construction
///     Variable loss = ...;  timer.mark(StepPhase::kForward);
///     loss.backward();      timer.mark(StepPhase::kBackward);
///     opt.step();           timer.mark(StepPhase::kUpdate);
///     timer.end_step();
///   }
///   timer.print();
class StepTimer {
 public:
  explicit StepTimer(Device device = cpu);

  /// Adds the time since the last mark to this phase.
  void mark(StepPhase phase);
  /// Discards the time since the last mark.
  void skip();
  void end_step() { ++steps_; }

  /// Returns the seconds of a phase. Waits until the device has reached the last mark.
  double seconds(StepPhase phase) const;
  double total() const;
  int64_t steps() const { return steps_; }

  /// Prints a table: seconds, share and milliseconds per step of each phase. If steps_per_epoch is
  /// given, also the estimated time of an epoch without evaluation.
  void print(std::ostream& out = standard_output(), int64_t steps_per_epoch = 0) const;

 private:
  struct Interval {
    StepPhase phase;
    Moment begin, end;
  };
  /// Adds the intervals whose ends the device has reached, or all intervals.
  void add_finished(bool all) const;

  Device device_;
  Moment last_;
  mutable std::vector<Interval> open_;  // intervals not yet in seconds_, the earliest first
  mutable std::array<double, kPhaseCount> seconds_{};
  int64_t steps_ = 0;
};

/// Cost of calls of a function. Allocations and bytes are those of the allocator
/// (core/base/allocator.h).
struct TimeReport {
  int64_t calls = 0;
  double seconds = 0;        // of all calls
  double first_seconds = 0;  // of the first call, which also warms up caches
  int64_t allocations = 0;
  int64_t peak_bytes = 0;  // in addition to the memory in use before

  double first_share() const { return seconds > 0 ? first_seconds / seconds : 0.0; }
};
/// Prints "0.512 s, 3 calls, 1204 allocations, 45.1 MiB peak, 61.2 % in the first call".
std::ostream& operator<<(std::ostream& out, const TimeReport& report);

/// Calls the function `calls` times and reports the cost: the time until the device has finished
/// the work of the calls, and the device's memory.
TimeReport time_calls(const std::function<void()>& call, int64_t calls = 1,
                      Device device = default_device());

/// Cost of a short call: the fastest of several runs of many calls. Other load on the machine can
/// only increase the time.
struct Timing {
  double seconds = 0;  // per call, in the fastest run
  int64_t loops = 0;   // calls per run
  int64_t runs = 0;
};
/// Prints "1000 loops, best of 5: 1.234 us per loop".
std::ostream& operator<<(std::ostream& out, const Timing& timing);

struct TimeitOptions {
  int64_t runs = 5;
  int64_t loops = 0;                 // 0: the first of 1, 2, 5, 10, 20 ... that takes min_seconds
  double min_seconds = 0.2;          // of the run that finds the number of loops
  Device device = default_device();  // every run waits for the work on this device
};
/// Measures a short call: std::cout << timeit([&] { net(x); });.
Timing timeit(const std::function<void()>& call, TimeitOptions options = {});

}  // namespace tapegrad
