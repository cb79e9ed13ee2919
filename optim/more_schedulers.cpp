#include "optim/more_schedulers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace tapegrad::optim {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

void require_from(std::string_view kind, std::string_view option, int64_t value, int64_t low) {
  if (value < low) fail<ArgumentError>(kind, ": ", option, " is ", value, ", not at least ", low);
}

}  // namespace

ConstantLR::ConstantLR(Optimizer& optimizer, double factor, int64_t total_iters)
    : Scheduler(optimizer), factor_(factor), total_(total_iters) {
  check_range("ConstantLR", "factor", factor, 0, 1.0000001);
  require_from("ConstantLR", "total_iters", total_iters, 0);
  apply();
}
double ConstantLR::rate(double base, int64_t t) const { return t < total_ ? base * factor_ : base; }

PolynomialLR::PolynomialLR(Optimizer& optimizer, int64_t total_iters, double power)
    : Scheduler(optimizer), total_(total_iters), power_(power) {
  require_from("PolynomialLR", "total_iters", total_iters, 1);
  check_range("PolynomialLR", "power", power, 0, kNoLimit);
  apply();
}
double PolynomialLR::rate(double base, int64_t t) const {
  return base * std::pow(1 - double(std::min(t, total_)) / double(total_), power_);
}

MultiplicativeLR::MultiplicativeLR(Optimizer& optimizer, std::function<double(int64_t)> factor)
    : Scheduler(optimizer), factor_(std::move(factor)) {
  if (!factor_) fail<ArgumentError>("MultiplicativeLR: no function");
  apply();
}
double MultiplicativeLR::rate(double base, int64_t t) const {
  if (t < known_) known_ = 0, product_ = 1;
  while (known_ < t) product_ *= factor_(++known_);
  return base * product_;
}

CyclicLR::CyclicLR(Optimizer& optimizer, CyclicLROptions options)
    : Scheduler(optimizer), options_(options) {
  check_range("CyclicLR", "base_lr", options.base_lr, 0, kNoLimit);
  check_range("CyclicLR", "max_lr", options.max_lr, options.base_lr, kNoLimit);
  check_range("CyclicLR", "gamma", options.gamma, 0, kNoLimit);
  require_from("CyclicLR", "step_size_up", options.step_size_up, 1);
  require_from("CyclicLR", "step_size_down", options.step_size_down, 0);
  if (options_.step_size_down == 0) options_.step_size_down = options_.step_size_up;
  apply();
}
double CyclicLR::rate(double, int64_t t) const {
  const auto& o = options_;
  const double up = double(o.step_size_up), length = up + double(o.step_size_down);
  const double cycle = std::floor(double(t) / length), at = double(t) - cycle * length;
  double height = at <= up ? at / up : (length - at) / (length - up);
  if (o.mode == CycleMode::kTriangular2) height *= std::pow(0.5, cycle);
  if (o.mode == CycleMode::kExpRange) height *= std::pow(o.gamma, double(t));
  return o.base_lr + (o.max_lr - o.base_lr) * height;
}

namespace {

std::vector<Scheduler*> pointers_to(
    std::initializer_list<std::reference_wrapper<Scheduler>> schedulers) {
  std::vector<Scheduler*> pointers;
  for (Scheduler& each : schedulers) pointers.push_back(&each);
  return pointers;
}

}  // namespace

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

SWALR::SWALR(Optimizer& optimizer, SWALROptions options) : Scheduler(optimizer), options_(options) {
  check_range("SWALR", "swa_lr", options.swa_lr, 0, kNoLimit);
  require_from("SWALR", "anneal_epochs", options.anneal_epochs, 0);
  apply();
}
double SWALR::rate(double base, int64_t t) const {
  const double share = t < options_.anneal_epochs ? double(t) / double(options_.anneal_epochs) : 1;
  const double moved = options_.anneal_strategy == AnnealStrategy::kCos
                           ? (1 - std::cos(std::numbers::pi * share)) / 2
                           : share;
  return options_.swa_lr * moved + base * (1 - moved);
}

}  // namespace tapegrad::optim
