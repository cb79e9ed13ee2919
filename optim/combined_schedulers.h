// Schedulers composed of other schedulers (optim/scheduler.h), as in PyTorch.
#pragma once

#include "optim/scheduler.h"

namespace tapegrad::optim {

/// Reference to a scheduler that a combined scheduler uses. It follows a scheduler that is moved.
/// Does not accept a temporary scheduler.
class SchedulerRef {
 public:
  SchedulerRef(Scheduler& scheduler);
  SchedulerRef(Scheduler* scheduler);
  template <std::derived_from<Scheduler> S>
  SchedulerRef(S&&) noexcept(refuse<S>()) {}

  /// Throws ArgumentError if the scheduler is null or no longer exists.
  Scheduler& operator*() const;
  Scheduler* operator->() const { return &**this; }

 private:
  template <typename S>
  static constexpr bool refuse() {
    static_assert(tapegrad::detail::kNever<S>,
                  "SequentialLR(opt, {LinearLR(opt, ...), ...}): name the parts: type "
                  "optim::LinearLR warmup(opt, ...); and SequentialLR(opt, {warmup, ...}, {10})");
    return true;
  }
  tapegrad::detail::Tracked::Handle handle_;
};

struct WarmupOptions {
  int64_t warmup_steps = 0;  // required
  double start_factor = 0.0;
};
/// Increases the rate linearly from start_factor times the rate during the first steps, then runs
/// another scheduler of the same optimizer from step 0:
///
///   optim::CosineAnnealingLR cosine(opt, {.T_max = 90});
///   optim::WarmupLR schedule(opt, cosine, {.warmup_steps = 10});
///
/// Step and save only the WarmupLR; the other scheduler has no state of its own.
class WarmupLR final : public Scheduler {
 public:
  WarmupLR(const OptimizerHere& optimizer, Scheduler& after, WarmupOptions options);

 private:
  double rate(double base, int64_t t) const override;
  double next(double now, double base, int64_t t) const override;
  bool is_stepwise() const override { return after_->is_stepwise(); }
  std::optional<double> momentum(int64_t t) const override;
  SchedulerRef after_;
  WarmupOptions options_;
};

/// Runs schedulers of one optimizer one after another, each from its own step 0. At each milestone
/// the next scheduler begins. Step and save only the SequentialLR:
///
///   optim::LinearLR warmup(opt, 0.1, 1.0, 10);
///   optim::CosineAnnealingLR cosine(opt, 90);
///   optim::SequentialLR schedule(opt, {warmup, cosine}, {10});
class SequentialLR final : public Scheduler {
 public:
  SequentialLR(const OptimizerHere& optimizer, std::vector<SchedulerRef> schedulers,
               std::vector<int64_t> milestones);
  template <std::same_as<std::vector<Scheduler*>> Pointers>
  SequentialLR(const OptimizerHere& optimizer, const Pointers& schedulers,
               std::vector<int64_t> milestones)
      : SequentialLR(optimizer, std::vector<SchedulerRef>(schedulers.begin(), schedulers.end()),
                     std::move(milestones)) {}

 private:
  /// Returns the scheduler of step t, and the number of this step in the scheduler.
  std::pair<const Scheduler*, int64_t> part_at(int64_t t) const;
  double rate(double base, int64_t t) const override;
  double next(double now, double base, int64_t t) const override;
  bool is_stepwise() const override;
  std::optional<double> momentum(int64_t t) const override;
  std::vector<SchedulerRef> schedulers_;
  std::vector<int64_t> milestones_;
};

/// Runs schedulers of one optimizer together. A step makes a step of each scheduler in order, as if
/// other code had changed the rate between them (optim/scheduler.h). A scheduler that always sets
/// the rate of its formula undoes the changes of those before it. Step and save only the
/// ChainedScheduler:
///
///   optim::ConstantLR warmup(opt, 0.1, 20);
///   optim::ExponentialLR decay(opt, 0.9);
///   optim::ChainedScheduler schedule({warmup, decay});
class ChainedScheduler final : public Scheduler {
 public:
  /// Throws ArgumentError for an empty list and for schedulers of different optimizers.
  explicit ChainedScheduler(std::vector<SchedulerRef> schedulers, Where where = Where::current());
  template <std::same_as<std::vector<Scheduler*>> Pointers>
  explicit ChainedScheduler(const Pointers& schedulers, Where where = Where::current())
      : ChainedScheduler(std::vector<SchedulerRef>(schedulers.begin(), schedulers.end()), where) {}

 private:
  static OptimizerHere optimizer_of(const std::vector<SchedulerRef>& schedulers, Where where);
  double rate(double base, int64_t t) const override;
  double next(double now, double base, int64_t t) const override;
  bool is_stepwise() const override { return true; }
  std::optional<double> momentum(int64_t t) const override;

  std::vector<SchedulerRef> schedulers_;
};

}  // namespace tapegrad::optim
