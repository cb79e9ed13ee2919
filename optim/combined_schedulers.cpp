#include "optim/combined_schedulers.h"

#include <algorithm>

#include "core/tape/internal/call_line.h"
#include "optim/internal/checks.h"

namespace tapegrad::optim {
Scheduler& SchedulerRef::operator*() const {
  auto* scheduler = handle_ ? tapegrad::detail::Tracked::find<Scheduler>(handle_) : nullptr;
  if (scheduler == nullptr)
    fail<ArgumentError>("a scheduler that another one is made of is null or no longer exists");
  return *scheduler;
}

WarmupLR::WarmupLR(const OptimizerHere& optimizer, Scheduler& after, WarmupOptions options)
    : Scheduler(optimizer), after_(after), options_(options) {
  const ErrorLine line(optimizer.where());
  require_positive("WarmupLR", "warmup_steps", double(options.warmup_steps));
  require_share("WarmupLR", "start_factor", options.start_factor);
  bases_ = after.bases_;
  initials_ = after.initials_;
  apply();
}
double WarmupLR::rate(double base, int64_t t) const {
  if (t >= options_.warmup_steps) return after_->rate(base, t - options_.warmup_steps);
  const double share = double(t) / double(options_.warmup_steps);
  return after_->rate(base, 0) * (options_.start_factor + (1 - options_.start_factor) * share);
}

double WarmupLR::next(double now, double base, int64_t t) const {
  if (t <= options_.warmup_steps) return Scheduler::next(now, base, t);
  return after_->following(now, base, t - options_.warmup_steps);
}

std::optional<double> WarmupLR::momentum(int64_t t) const {
  return after_->momentum(std::max<int64_t>(0, t - options_.warmup_steps));
}

SequentialLR::SequentialLR(const OptimizerHere& optimizer, std::vector<SchedulerRef> schedulers,
                           std::vector<int64_t> milestones)
    : Scheduler(optimizer), schedulers_(std::move(schedulers)), milestones_(std::move(milestones)) {
  const ErrorLine line(optimizer.where());
  if (schedulers_.empty() || milestones_.size() + 1 != schedulers_.size())
    fail<ArgumentError>("SequentialLR: ", schedulers_.size(), " schedulers and ",
                        milestones_.size(), " milestones; one milestone fewer than schedulers");
  if (!std::is_sorted(milestones_.begin(), milestones_.end()) ||
      (!milestones_.empty() && milestones_[0] < 0))
    fail<ArgumentError>("SequentialLR: the milestones are not ascending from 0");
  for (const SchedulerRef& each : schedulers_)
    if (&each->optimizer() != &optimizer.get())
      fail<ArgumentError>("SequentialLR: a scheduler of another optimizer");
  bases_ = initials_;
  apply();
}
std::pair<const Scheduler*, int64_t> SequentialLR::part_at(int64_t t) const {
  const size_t k =
      size_t(std::upper_bound(milestones_.begin(), milestones_.end(), t) - milestones_.begin());
  return {&*schedulers_[k], k == 0 ? t : t - milestones_[k - 1]};
}
double SequentialLR::rate(double base, int64_t t) const {
  const auto [part, step] = part_at(t);
  return part->rate(base, step);
}
double SequentialLR::next(double now, double base, int64_t t) const {
  const auto [part, step] = part_at(t);
  return step == 0 ? part->rate(base, 0) : part->following(now, base, step);
}
bool SequentialLR::is_stepwise() const {
  return std::ranges::any_of(schedulers_,
                             [](const SchedulerRef& each) { return each->is_stepwise(); });
}
std::optional<double> SequentialLR::momentum(int64_t t) const {
  const auto [part, step] = part_at(t);
  return part->momentum(step);
}

ChainedScheduler::ChainedScheduler(std::vector<SchedulerRef> schedulers, Where where)
    : Scheduler(optimizer_of(schedulers, where)), schedulers_(std::move(schedulers)) {
  const ErrorLine line(where);
  bases_ = initials_;
  apply();
}
double ChainedScheduler::rate(double base, int64_t t) const {
  double rate = base;
  for (const SchedulerRef& each : schedulers_)
    rate = each->rate(each->is_absolute() ? base : rate, t);
  return rate;
}
double ChainedScheduler::next(double now, double base, int64_t t) const {
  for (const SchedulerRef& each : schedulers_) now = each->following(now, base, t);
  return now;
}
std::optional<double> ChainedScheduler::momentum(int64_t t) const {
  std::optional<double> last;
  for (const SchedulerRef& each : schedulers_)
    if (const std::optional<double> own = each->momentum(t)) last = own;
  return last;
}
OptimizerHere ChainedScheduler::optimizer_of(const std::vector<SchedulerRef>& schedulers,
                                             Where where) {
  const ErrorLine line(where);
  if (schedulers.empty()) fail<ArgumentError>("ChainedScheduler: there are no schedulers");
  for (const SchedulerRef& each : schedulers)
    if (&each->optimizer() != &schedulers[0]->optimizer())
      fail<ArgumentError>("ChainedScheduler: a scheduler of another optimizer");
  return {schedulers[0]->optimizer(), where};
}

SchedulerRef::SchedulerRef(Scheduler& scheduler) : handle_(scheduler.handle()) {}
SchedulerRef::SchedulerRef(Scheduler* scheduler)
    : handle_(scheduler ? scheduler->handle() : nullptr) {}
}  // namespace tapegrad::optim
