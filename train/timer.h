// Timers: seconds per phase of a training step, and the time of a call.
#pragma once

#include <array>
#include <functional>
#include <iosfwd>
#include <string_view>

#include "core/base/device.h"
#include "core/base/output.h"

namespace tapegrad {

enum class Phase { kData, kForward, kBackward, kUpdate, kEvaluate };
inline constexpr int kPhaseCount = 5;
inline constexpr std::string_view kPhaseNames[kPhaseCount] = {"data", "forward", "backward",
                                                              "update", "evaluate"};

/// Seconds of a monotonic clock.
double steady_seconds();

/// Adds up the time between marks by phase.
///
///   StepTimer timer;
///   for (auto& [x, y] : loader) {
///     timer.mark(Phase::kData);          // since the last mark, or since construction
///     Variable loss = ...;  timer.mark(Phase::kForward);
///     loss.backward();      timer.mark(Phase::kBackward);
///     opt.step();           timer.mark(Phase::kUpdate);
///     timer.end_step();
///   }
///   timer.print();
class StepTimer {
 public:
  StepTimer() { skip(); }

  /// Adds the time since the last mark to this phase.
  void mark(Phase phase);
  /// Discards the time since the last mark.
  void skip();
  void end_step() { ++steps_; }

  double seconds(Phase phase) const { return seconds_[size_t(phase)]; }
  double total() const;
  int64_t steps() const { return steps_; }

  /// Prints a table: seconds, share and milliseconds per step of each phase. If steps_per_epoch is
  /// given, also the estimated time of an epoch without evaluation.
  void print(std::ostream& out = standard_output(), int64_t steps_per_epoch = 0) const;

 private:
  double last_ = 0;  // seconds of a steady clock
  std::array<double, kPhaseCount> seconds_{};
  int64_t steps_ = 0;
};

/// Cost of calls of a function. Allocations and bytes are those of the allocator
/// (core/base/allocator.h).
struct TimeReport {
  int64_t calls = 0;
  double seconds = 0;        // of all calls
  double first_seconds = 0;  // of the first call, which also warms up caches
  int64_t allocations = 0;
  int64_t peak_bytes = 0;  // above the memory in use before

  double first_share() const { return seconds > 0 ? first_seconds / seconds : 0.0; }
};
/// "0.512 s, 3 calls, 1204 allocations, 45.1 MiB peak, 61.2 % in the first call"
std::ostream& operator<<(std::ostream& out, const TimeReport& report);

/// Calls the function `calls` times and reports the cost.
TimeReport time_calls(const std::function<void()>& call, int64_t calls = 1, Device device = cpu);

/// Cost of a short call: the fastest of several runs of many calls. Other load on the machine can
/// only increase a time.
struct Timing {
  double seconds = 0;  // per call, in the fastest run
  int64_t loops = 0;   // calls per run
  int64_t runs = 0;
};
/// "1000 loops, best of 5: 1.234 us per loop"
std::ostream& operator<<(std::ostream& out, const Timing& timing);

struct TimeitOptions {
  int64_t runs = 5;
  int64_t loops = 0;                 // 0: the first of 1, 2, 5, 10, 20 ... that takes min_seconds
  double min_seconds = 0.2;          // of the run that finds the number of loops
  Device device = default_device();  // every run waits for the work on this device
};
/// std::cout << timeit([&] { net(x); });
Timing timeit(const std::function<void()>& call, TimeitOptions options = {});

}  // namespace tapegrad
