#include "train/timer.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include "absl/strings/str_format.h"

#include "core/base/allocator.h"
#include "core/base/context.h"
#include "core/base/error.h"
#include "core/base/internal/clock.h"
#include "core/cuda.h"

namespace tapegrad {

double steady_seconds() { return detail::steady_seconds(); }

void StepTimer::mark(StepPhase phase) {
  if (device_ != cpu && detail::context.step_observer != nullptr) return;
  const Moment now(device_);
  open_.push_back({phase, std::exchange(last_, now), now});
  add_finished(/*all=*/false);
}

void StepTimer::skip() {
  if (device_ == cpu || detail::context.step_observer == nullptr) last_ = Moment(device_);
}

void StepTimer::add_finished(bool all) const {
  auto next = open_.begin();
  for (; next != open_.end() && (all || next->end.query()); ++next)
    seconds_[size_t(next->phase)] += next->end.seconds_since(next->begin);
  open_.erase(open_.begin(), next);
}

double StepTimer::seconds(StepPhase phase) const {
  add_finished(/*all=*/true);
  return seconds_[size_t(phase)];
}

double StepTimer::total() const {
  add_finished(/*all=*/true);
  double sum = 0;
  for (double seconds : seconds_) sum += seconds;
  return sum;
}

void StepTimer::print(std::ostream& out, int64_t steps_per_epoch) const {
  const double all = total();
  out << absl::StreamFormat("%-10s %10s %8s %10s\n", "", "seconds", "share", "ms/step");
  for (int i = 0; i < kPhaseCount; ++i) {
    const double seconds = seconds_[size_t(i)];
    if (StepPhase(i) == StepPhase::kEvaluate && seconds == 0) continue;
    out << absl::StreamFormat("%-10s %10.3f %6.1f %%", kPhaseNames[i], seconds,
                              all > 0 ? 100 * seconds / all : 0.0);
    if (StepPhase(i) != StepPhase::kEvaluate && steps_ > 0)
      out << absl::StreamFormat(" %10.3f", 1e3 * seconds / double(steps_));
    out << '\n';
  }
  out << absl::StreamFormat("%-10s %10.3f %6.1f %%\n", "total", all, 100.0);
  const double training = all - seconds(StepPhase::kEvaluate);
  if (steps_per_epoch > 0 && steps_ > 0)
    out << absl::StreamFormat("an epoch of %d steps at %.3f ms: %.2f s\n", steps_per_epoch,
                              1e3 * training / double(steps_),
                              training / double(steps_) * double(steps_per_epoch));
  out.flush();
}

std::ostream& operator<<(std::ostream& out, const TimeReport& report) {
  return out << absl::StreamFormat(
             "%.3f s, %d call%s, %d allocations, %.1f MiB peak, %.1f %% in the first call",
             report.seconds, report.calls, report.calls == 1 ? "" : "s", report.allocations,
             double(report.peak_bytes) / (1 << 20), 100 * report.first_share());
}

TimeReport time_calls(const std::function<void()>& call, int64_t calls, Device device) {
  if (calls < 1) fail<ArgumentError>("time_calls: calls must be at least 1: ", calls);
  TimeReport report;
  report.calls = calls;
  reset_peak_memory(device);
  const MemoryStats before = memory_stats(device);
  const Moment start(device);
  Moment first = start;
  for (int64_t i = 0; i < calls; ++i) {
    call();
    if (i == 0) first = Moment(device);
  }
  report.seconds = Moment(device).seconds_since(start);
  report.first_seconds = calls == 1 ? report.seconds : first.seconds_since(start);
  const MemoryStats after = memory_stats(device);
  report.allocations = after.allocations - before.allocations;
  report.peak_bytes = std::max<int64_t>(0, after.peak - before.in_use);
  return report;
}

std::ostream& operator<<(std::ostream& out, const Timing& timing) {
  double amount = timing.seconds;
  const char* unit = "s";
  for (const char* smaller : {"ms", "us", "ns"}) {
    if (amount >= 1) break;
    amount *= 1e3;
    unit = smaller;
  }
  return out << absl::StreamFormat("%d loop%s, best of %d: %.4g %s per loop", timing.loops,
                                   timing.loops == 1 ? "" : "s", timing.runs, amount, unit);
}

Timing timeit(const std::function<void()>& call, TimeitOptions options) {
  if (options.runs < 1) fail<ArgumentError>("timeit: runs must be at least 1: ", options.runs);
  if (options.loops < 0) fail<ArgumentError>("timeit: loops is negative: ", options.loops);
  const auto time_of = [&](int64_t loops) {
    const double start = steady_seconds();
    for (int64_t i = 0; i < loops; ++i) call();
    if (options.device.type == DeviceType::kCuda) cuda::synchronize(options.device);
    return steady_seconds() - start;
  };
  Timing timing{.loops = options.loops, .runs = options.runs};
  if (timing.loops == 0) {
    constexpr int64_t kMost = 1'000'000'000;
    time_of(1);  // fills caches
    for (int64_t power = 1; timing.loops == 0; power *= 10)
      for (const int64_t loops : {power, 2 * power, 5 * power})
        if (timing.loops == 0 && (time_of(loops) >= options.min_seconds || loops >= kMost))
          timing.loops = loops;
  }
  double best = time_of(timing.loops);
  for (int64_t run = 1; run < options.runs; ++run) best = std::min(best, time_of(timing.loops));
  timing.seconds = best / double(timing.loops);
  return timing;
}

StepTimer::StepTimer(Device device) : device_(device), last_(device) {}
}  // namespace tapegrad
