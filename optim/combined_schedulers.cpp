#include "optim/combined_schedulers.h"

#include <algorithm>

#include "optim/internal/checks.h"

namespace tapegrad::optim {
namespace {

std::vector<Scheduler*> pointers_to(
    std::initializer_list<std::reference_wrapper<Scheduler>> schedulers) {
  std::vector<Scheduler*> pointers;
  for (Scheduler& each : schedulers) pointers.push_back(&each);
  return pointers;
}

}  // namespace

WarmupLR::WarmupLR(Optimizer& optimizer, Scheduler& after, WarmupOptions options)
    : Scheduler(optimizer), after_(after), options_(options) {
  require_positive("WarmupLR", ".warmup_steps", double(options.warmup_steps));
  check_range("WarmupLR", "start_factor", options.start_factor, 0, 1.0000001);
  bases_ = after.bases_;
  apply();
}
double WarmupLR::rate(double base, int64_t t) const {
  if (t >= options_.warmup_steps) return after_.rate(base, t - options_.warmup_steps);
  const double share = double(t) / double(options_.warmup_steps);
  return after_.rate(base, 0) * (options_.start_factor + (1 - options_.start_factor) * share);
}

SequentialLR::SequentialLR(Optimizer& optimizer,
                           std::initializer_list<std::reference_wrapper<Scheduler>> schedulers,
                           std::vector<int64_t> milestones)
    : SequentialLR(optimizer, pointers_to(schedulers), std::move(milestones)) {}

SequentialLR::SequentialLR(Optimizer& optimizer, std::vector<Scheduler*> schedulers,
                           std::vector<int64_t> milestones)
    : Scheduler(optimizer), schedulers_(std::move(schedulers)), milestones_(std::move(milestones)) {
  if (schedulers_.empty() || milestones_.size() + 1 != schedulers_.size())
    fail<ArgumentError>("SequentialLR: ", schedulers_.size(), " schedulers and ",
                        milestones_.size(), " milestones; one milestone fewer than schedulers");
  if (!std::is_sorted(milestones_.begin(), milestones_.end()) ||
      (!milestones_.empty() && milestones_[0] < 0))
    fail<ArgumentError>("SequentialLR: the milestones are not ascending from 0");
  for (const Scheduler* each : schedulers_)
    if (each == nullptr || &each->optimizer_ != &optimizer)
      fail<ArgumentError>("SequentialLR: a scheduler is null or of another optimizer");
  bases_ = initial_rates();
  apply();
}
double SequentialLR::rate(double base, int64_t t) const {
  const size_t k =
      size_t(std::upper_bound(milestones_.begin(), milestones_.end(), t) - milestones_.begin());
  return schedulers_[k]->rate(base, k == 0 ? t : t - milestones_[k - 1]);
}

ChainedScheduler::ChainedScheduler(
    std::initializer_list<std::reference_wrapper<Scheduler>> schedulers)
    : ChainedScheduler(pointers_to(schedulers)) {}
ChainedScheduler::ChainedScheduler(std::vector<Scheduler*> schedulers)
    : Scheduler(optimizer_of(schedulers)), schedulers_(std::move(schedulers)) {
  bases_ = initial_rates();
  apply();
}
double ChainedScheduler::rate(double base, int64_t t) const {
  for (const Scheduler* each : schedulers_) base = each->rate(base, t);
  return base;
}
Optimizer& ChainedScheduler::optimizer_of(const std::vector<Scheduler*>& schedulers) {
  if (schedulers.empty()) fail<ArgumentError>("ChainedScheduler: there are no schedulers");
  for (const Scheduler* each : schedulers)
    if (each == nullptr || &each->optimizer_ != &schedulers[0]->optimizer_)
      fail<ArgumentError>("ChainedScheduler: a scheduler is null or of another optimizer");
  return schedulers[0]->optimizer_;
}

}  // namespace tapegrad::optim
