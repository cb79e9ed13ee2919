#include "optim/combined_schedulers.h"

#include <algorithm>

#include "core/tape/internal/call_line.h"
#include "optim/internal/checks.h"

namespace tapegrad::optim {
namespace {

std::vector<Scheduler*> pointers_to(std::initializer_list<SchedulerRef> schedulers) {
  std::vector<Scheduler*> pointers;
  for (const SchedulerRef& each : schedulers) pointers.push_back(each.get());
  return pointers;
}

}  // namespace

WarmupLR::WarmupLR(const OptimizerHere& optimizer, Scheduler& after, WarmupOptions options)
    : Scheduler(optimizer), after_(after), options_(options) {
  const ErrorLine line(optimizer.where());
  require_positive("WarmupLR", ".warmup_steps", double(options.warmup_steps));
  check_range("WarmupLR", "start_factor", options.start_factor, 0, 1.0000001);
  bases_ = after.bases_;
  initials_ = after.initials_;
  apply();
}
double WarmupLR::rate(double base, int64_t t) const {
  if (t >= options_.warmup_steps) return after_.rate(base, t - options_.warmup_steps);
  const double share = double(t) / double(options_.warmup_steps);
  return after_.rate(base, 0) * (options_.start_factor + (1 - options_.start_factor) * share);
}

double WarmupLR::next(double now, double base, int64_t t) const {
  if (t <= options_.warmup_steps) return Scheduler::next(now, base, t);
  return after_.following(now, base, t - options_.warmup_steps);
}

SequentialLR::SequentialLR(const OptimizerHere& optimizer,
                           std::initializer_list<SchedulerRef> schedulers,
                           std::vector<int64_t> milestones)
    : SequentialLR(optimizer, pointers_to(schedulers), std::move(milestones)) {}

SequentialLR::SequentialLR(const OptimizerHere& optimizer, std::vector<Scheduler*> schedulers,
                           std::vector<int64_t> milestones)
    : Scheduler(optimizer), schedulers_(std::move(schedulers)), milestones_(std::move(milestones)) {
  const ErrorLine line(optimizer.where());
  if (schedulers_.empty() || milestones_.size() + 1 != schedulers_.size())
    fail<ArgumentError>("SequentialLR: ", schedulers_.size(), " schedulers and ",
                        milestones_.size(), " milestones; one milestone fewer than schedulers");
  if (!std::is_sorted(milestones_.begin(), milestones_.end()) ||
      (!milestones_.empty() && milestones_[0] < 0))
    fail<ArgumentError>("SequentialLR: the milestones are not ascending from 0");
  for (const Scheduler* each : schedulers_)
    if (each == nullptr || &each->optimizer() != &optimizer.get())
      fail<ArgumentError>("SequentialLR: a scheduler is null or of another optimizer");
  bases_ = initials_;
  apply();
}
double SequentialLR::rate(double base, int64_t t) const {
  const size_t k =
      size_t(std::upper_bound(milestones_.begin(), milestones_.end(), t) - milestones_.begin());
  return schedulers_[k]->rate(base, k == 0 ? t : t - milestones_[k - 1]);
}
double SequentialLR::next(double now, double base, int64_t t) const {
  const size_t k =
      size_t(std::upper_bound(milestones_.begin(), milestones_.end(), t) - milestones_.begin());
  const int64_t own = k == 0 ? t : t - milestones_[k - 1];
  return own == 0 ? schedulers_[k]->rate(base, 0) : schedulers_[k]->following(now, base, own);
}

ChainedScheduler::ChainedScheduler(std::initializer_list<SchedulerRef> schedulers, Where where)
    : ChainedScheduler(pointers_to(schedulers), where) {}
ChainedScheduler::ChainedScheduler(std::vector<Scheduler*> schedulers, Where where)
    : Scheduler(optimizer_of(schedulers, where)), schedulers_(std::move(schedulers)) {
  const ErrorLine line(where);
  bases_ = initials_;
  apply();
}
double ChainedScheduler::rate(double base, int64_t t) const {
  double rate = base;
  for (const Scheduler* each : schedulers_) rate = each->rate(each->is_absolute() ? base : rate, t);
  return rate;
}
double ChainedScheduler::next(double now, double base, int64_t t) const {
  for (const Scheduler* each : schedulers_) now = each->following(now, base, t);
  return now;
}
OptimizerHere ChainedScheduler::optimizer_of(const std::vector<Scheduler*>& schedulers,
                                             Where where) {
  const ErrorLine line(where);
  if (schedulers.empty()) fail<ArgumentError>("ChainedScheduler: there are no schedulers");
  for (const Scheduler* each : schedulers)
    if (each == nullptr || &each->optimizer() != &schedulers[0]->optimizer())
      fail<ArgumentError>("ChainedScheduler: a scheduler is null or of another optimizer");
  return {schedulers[0]->optimizer(), where};
}

}  // namespace tapegrad::optim
