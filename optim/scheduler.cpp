#include "optim/scheduler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numbers>
#include <utility>

#include "core/tape/internal/call_line.h"
#include "optim/internal/checks.h"

namespace tapegrad::optim {
namespace {

double cosine(double start, double end, double share) {
  return end + (start - end) / 2 * (1 + std::cos(std::numbers::pi * share));
}

std::vector<double> rates_of(const Optimizer& optimizer) {
  std::vector<double> rates;
  for (int64_t group = 0; group < optimizer.group_count(); ++group)
    rates.push_back(optimizer.lr(group));
  return rates;
}

/// Throws ArgumentError unless 0 <= base <= max < 1.
void check_momenta(std::string_view kind, double base, double max) {
  check_range(kind, "base_momentum", base, 0, 1);
  check_range(kind, "max_momentum", max, base, 1);
}

/// Returns the single element of the entry `name`. Throws ArgumentError if there is no such entry.
const Tensor& number_at(const TensorMap& state, const std::string& name) {
  const auto found = state.find(name);
  if (found == state.end() || found->second.numel() != 1)
    fail<ArgumentError>("scheduler: load_state_dict: no number \"", name, '"');
  return found->second;
}

}  // namespace

Scheduler::Scheduler(const OptimizerHere& optimizer)
    : bases_(rates_of(optimizer.get())),
      optimizer_(optimizer),
      initials_(initial_rates()),
      own_(bases_) {}

Scheduler::~Scheduler() = default;
Scheduler::Scheduler(Scheduler&&) noexcept = default;
Scheduler& Scheduler::operator=(Scheduler&&) noexcept = default;

std::vector<double> Scheduler::initial_rates() const {
  std::vector<double> rates;
  for (const Optimizer::Group& group : optimizer().groups_) rates.push_back(group.initial_lr);
  return rates;
}

void Scheduler::set_initial_rates(double rate, bool only_unscheduled) {
  for (Optimizer::Group& group : optimizer().groups_)
    if (!only_unscheduled || !group.is_scheduled) group.initial_lr = rate;
}

void Scheduler::set_rates(const std::vector<double>& own, const std::vector<double>& rates,
                          int64_t t) {
  Optimizer& to = optimizer();
  for (const double rate : rates) check_range(to.kind(), "lr", rate, 0, kNoLimit);
  for (size_t group = 0; group < rates.size(); ++group) to.schedule_lr(group, rates[group]);
  if (const std::optional<double> value = momentum(t))
    for (Optimizer::Group& group : to.groups_) to.set_momentum(group, *value);
  own_ = own;
}

void Scheduler::apply() {
  if (is_absolute()) bases_ = initials_;
  std::vector<double> rates;
  for (const double base : bases_) rates.push_back(rate(base, 0));
  set_rates(rates, rates, 0);
  for (Optimizer::Group& group : optimizer().groups_) group.is_scheduled = true;
}

double Scheduler::next(double now, double base, int64_t t) const {
  const double offset = rate(0, t - 1), factor = rate(1, t - 1) - offset;
  if (factor != 0) return std::max(0.0, rate((now - offset) / factor, t));
  const double rate_of_base = rate(base, t);
  const bool has_ended = offset == 0 && rate_of_base == 0;
  return has_ended ? now : rate_of_base;
}

double Scheduler::following(double now, double base, int64_t t) const {
  return is_absolute() ? rate(base, t) : next(now, base, t);
}

void Scheduler::step(Where where) {
  const ErrorLine line(where);
  std::vector<double> own, rates;
  for (size_t group = 0; group < bases_.size(); ++group) {
    const double base = bases_[group], now = optimizer().lr(int64_t(group));
    own.push_back(rate(base, steps_ + 1));
    const bool is_own = !is_stepwise() && now == own_[group] && base == initials_[group];
    rates.push_back(is_own ? own.back() : following(now, initials_[group], steps_ + 1));
  }
  set_rates(own, rates, steps_ + 1);
  ++steps_;
}

void Scheduler::jump(const std::vector<double>& rates, int64_t steps) {
  set_rates(rates, rates, steps);
  steps_ = steps;
}

std::ostream& operator<<(std::ostream& out, const Rates& rates) {
  const char* before = "[";
  for (const double rate : rates) out << std::exchange(before, ", ") << rate;
  return out << (rates.empty() ? "[]" : "]");
}

Rates Scheduler::get_last_lr() const { return rates_of(optimizer()); }

TensorMap Scheduler::state_dict() const {
  std::vector<double> rates = rates_of(optimizer());
  rates.resize(bases_.size());  // without groups that were added since
  const Shape groups{int64_t(bases_.size())};
  TensorMap state{{"step", Tensor::full({}, steps_, i64)},
                  {"base_lrs", Tensor::from<double>(bases_, groups)},
                  {"lrs", Tensor::from<double>(rates, groups)}};
  // The rates differ only if another scheduler was constructed before this one.
  if (initials_ != bases_) state["initial_lrs"] = Tensor::from<double>(initials_, groups);
  return state;
}

void Scheduler::load_state_dict(const TensorMap& state) {
  const auto rates_at = [&](const char* name) {
    const auto found = state.find(name);
    if (found == state.end() || found->second.dtype() != f64 ||
        found->second.shape() != Shape{int64_t(bases_.size())})
      fail<ArgumentError>("scheduler: load_state_dict: \"", name, "\" does not fit the ",
                          bases_.size(), " groups");
    const Tensor values = found->second.to(cpu).contiguous();
    const std::span loaded(values.data<double>(), bases_.size());
    for (const double rate : loaded)
      check_range("scheduler: load_state_dict", name, rate, 0, kNoLimit);
    return std::vector<double>(loaded.begin(), loaded.end());
  };
  const int64_t steps = number_at(state, "step").number().to<int64_t>();
  require_from("scheduler: load_state_dict", "step", steps, 0);
  std::vector<double> bases = rates_at("base_lrs"), own;
  std::vector<double> initials = state.contains("initial_lrs") ? rates_at("initial_lrs") : bases;
  for (const double base : bases) own.push_back(rate(base, steps));
  set_rates(own, state.contains("lrs") ? rates_at("lrs") : own,  // older files have no "lrs"
            steps);
  bases_ = std::move(bases);
  initials_ = std::move(initials);
  steps_ = steps;
}

StepLR::StepLR(const OptimizerHere& optimizer, StepLROptions options)
    : Scheduler(optimizer), options_(options) {
  const ErrorLine line(optimizer.where());
  require_positive("StepLR", "step_size", double(options.step_size));
  check_range("StepLR", "gamma", options.gamma, 0, kNoLimit);
  apply();
}
double StepLR::rate(double base, int64_t t) const {
  return base * std::pow(options_.gamma, double(t / options_.step_size));
}
double StepLR::next(double now, double, int64_t t) const {
  return t % options_.step_size == 0 ? now * options_.gamma : now;
}

MultiStepLR::MultiStepLR(const OptimizerHere& optimizer, MultiStepLROptions options)
    : Scheduler(optimizer), options_(std::move(options)) {
  const ErrorLine line(optimizer.where());
  if (options_.milestones.empty()) fail<ArgumentError>("MultiStepLR: .milestones are empty");
  require_from("MultiStepLR", "milestones[0]", options_.milestones.front(), 0);
  if (const auto fall = std::ranges::adjacent_find(options_.milestones, std::greater());
      fall != options_.milestones.end())
    fail<ArgumentError>("MultiStepLR: .milestones are not ascending: ", fall[1], " after ", *fall);
  check_range("MultiStepLR", "gamma", options_.gamma, 0, kNoLimit);
  apply();
}
double MultiStepLR::rate(double base, int64_t t) const {
  const auto& stones = options_.milestones;
  const auto passed = std::upper_bound(stones.begin(), stones.end(), t) - stones.begin();
  return base * std::pow(options_.gamma, double(passed));
}
double MultiStepLR::next(double now, double, int64_t t) const {
  const auto& stones = options_.milestones;
  return now * std::pow(options_.gamma, double(std::count(stones.begin(), stones.end(), t)));
}

ExponentialLR::ExponentialLR(const OptimizerHere& optimizer, double gamma)
    : Scheduler(optimizer), gamma_(gamma) {
  const ErrorLine line(optimizer.where());
  check_range("ExponentialLR", "gamma", gamma, 0, kNoLimit);
  apply();
}
double ExponentialLR::rate(double base, int64_t t) const {
  return base * std::pow(gamma_, double(t));
}
double ExponentialLR::next(double now, double, int64_t) const { return now * gamma_; }

CosineAnnealingLR::CosineAnnealingLR(const OptimizerHere& optimizer,
                                     CosineAnnealingLROptions options)
    : Scheduler(optimizer), options_(options) {
  const ErrorLine line(optimizer.where());
  require_positive("CosineAnnealingLR", "T_max", double(options.T_max));
  check_range("CosineAnnealingLR", "eta_min", options.eta_min, 0, kNoLimit);
  apply();
}
double CosineAnnealingLR::rate(double base, int64_t t) const {
  return cosine(base, options_.eta_min, double(t) / double(options_.T_max));
}
double CosineAnnealingLR::next(double now, double base, int64_t t) const {
  const double step = std::numbers::pi / double(options_.T_max), low = options_.eta_min;
  const bool was_lowest =
      (t - 1) % options_.T_max == 0 && (t - 1) / options_.T_max % 2 == 1;  // 2 T_max may overflow
  if (was_lowest) return now + (base - low) * (1 - std::cos(step)) / 2;
  const double ratio = (1 + std::cos(step * double(t))) / (1 + std::cos(step * double(t - 1)));
  return std::max(0.0, low + (now - low) * ratio);
}

LinearLR::LinearLR(const OptimizerHere& optimizer, LinearLROptions options)
    : Scheduler(optimizer), options_(options) {
  const ErrorLine line(optimizer.where());
  require_positive("LinearLR", "total_iters", double(options.total_iters));
  if (!(options.start_factor > 0 && options.start_factor <= 1))
    fail<ArgumentError>("LinearLR: start_factor is ", options.start_factor, ", not in (0, 1]");
  require_share("LinearLR", "end_factor", options.end_factor);
  apply();
}
double LinearLR::rate(double base, int64_t t) const {
  const double share = std::min(1.0, double(t) / double(options_.total_iters));
  return base * (options_.start_factor + (options_.end_factor - options_.start_factor) * share);
}
double LinearLR::next(double now, double base, int64_t t) const {
  if (t > options_.total_iters) return now;
  const double before = rate(1, t - 1);
  return before != 0 ? now * (rate(1, t) / before) : rate(base, t);
}

OneCycleLR::OneCycleLR(const OptimizerHere& optimizer, OneCycleLROptions options)
    : Scheduler(optimizer), options_(options) {
  const ErrorLine line(optimizer.where());
  require_positive("OneCycleLR", "max_lr", options.max_lr);
  if (options.total_steps == 0 && options.epochs > 0 && options.steps_per_epoch > 0) {
    if (options.epochs > INT64_MAX / options.steps_per_epoch)
      fail<ArgumentError>("OneCycleLR: ", options.epochs, " epochs of ", options.steps_per_epoch,
                          " steps are too many");
    options_.total_steps = options.epochs * options.steps_per_epoch;
  }
  require_positive("OneCycleLR", "total_steps", double(options_.total_steps));
  require_share("OneCycleLR", "pct_start", options.pct_start);
  require_positive("OneCycleLR", "div_factor", options.div_factor);
  require_positive("OneCycleLR", "final_div_factor", options.final_div_factor);
  check_momenta("OneCycleLR", options.base_momentum, options.max_momentum);
  set_initial_rates(options.max_lr / options.div_factor, /*only_unscheduled=*/false);
  apply();
}
// The first phase ends at step pct_start * total_steps - 1, the last one at total_steps - 1.
OneCycleLR::Values OneCycleLR::at(int64_t t) const {
  const auto& o = options_;
  if (t > o.total_steps)
    fail<ArgumentError>("OneCycleLR: step ", t, " of ", o.total_steps, " in all");
  struct Phase {
    double end;
    Values from, to;
  };
  const double initial = o.max_lr / o.div_factor, final = initial / o.final_div_factor;
  const double peak = o.pct_start * double(o.total_steps) - 1, end = double(o.total_steps) - 1;
  const Values low{initial, o.max_momentum}, high{o.max_lr, o.base_momentum};
  const Values last{final, o.max_momentum};
  const Phase up{peak, low, high}, down{2 * peak, high, low};
  const auto phases = o.three_phase
                          ? std::array{up, down, Phase{end, low, last}}
                          : std::array{up, Phase{end, high, last}, Phase{end, last, last}};
  const double step = std::min(double(t), end);
  double start = 0;
  for (const auto& [stop, from, to] : phases) {
    if (step > stop) {
      start = stop;
      continue;
    }
    if (stop <= start) return from;  // a phase without steps
    const double share = (step - start) / (stop - start);
    const auto between = [&](double a, double b) {
      if (o.anneal_strategy == AnnealStrategy::kLinear) return a + (b - a) * share;
      return cosine(a, b, share);
    };
    return {between(from.rate, to.rate), between(from.momentum, to.momentum)};
  }
  return phases.back().to;
}
std::optional<double> OneCycleLR::momentum(int64_t t) const {
  if (!options_.cycle_momentum) return {};
  return at(t).momentum;
}

LambdaLR::LambdaLR(const OptimizerHere& optimizer, std::function<double(int64_t)> factor)
    : Scheduler(optimizer), factor_(std::move(factor)) {
  const ErrorLine line(optimizer.where());
  if (!factor_) fail<ArgumentError>("LambdaLR: no function");
  apply();
}
double LambdaLR::rate(double base, int64_t t) const { return base * factor_(t); }

CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(const OptimizerHere& optimizer,
                                                         int64_t T_0, int64_t T_mult,
                                                         double eta_min)
    : Scheduler(optimizer), first_(T_0), factor_(T_mult), eta_min_(eta_min) {
  const ErrorLine line(optimizer.where());
  require_from("CosineAnnealingWarmRestarts", "T_0", T_0, 1);
  require_from("CosineAnnealingWarmRestarts", "T_mult", T_mult, 1);
  check_range("CosineAnnealingWarmRestarts", "eta_min", eta_min, 0, kNoLimit);
  apply();
}
CosineAnnealingWarmRestarts::CosineAnnealingWarmRestarts(const OptimizerHere& optimizer,
                                                         CosineAnnealingWarmRestartsOptions options)
    : CosineAnnealingWarmRestarts(optimizer, options.T_0, options.T_mult, options.eta_min) {}
void CosineAnnealingWarmRestarts::step(double epoch, Where where) {
  const ErrorLine line(where);
  check_range("CosineAnnealingWarmRestarts", "epoch", epoch, 0, 0x1p63);
  std::vector<double> rates;
  for (const double base : bases_) rates.push_back(rate_at(base, epoch));
  jump(rates, int64_t(epoch));
}
double CosineAnnealingWarmRestarts::rate(double base, int64_t t) const {
  return rate_at(base, double(t));
}
double CosineAnnealingWarmRestarts::rate_at(double base, double t) const {
  double period = double(first_);
  if (factor_ == 1)
    t = std::fmod(t, period);
  else
    for (; t >= period; period *= double(factor_)) t -= period;
  return cosine(base, eta_min_, t / period);
}

ConstantLR::ConstantLR(const OptimizerHere& optimizer, double factor, int64_t total_iters)
    : Scheduler(optimizer), factor_(factor), total_(total_iters) {
  const ErrorLine line(optimizer.where());
  require_share("ConstantLR", "factor", factor);
  require_from("ConstantLR", "total_iters", total_iters, 0);
  apply();
}
ConstantLR::ConstantLR(const OptimizerHere& optimizer, ConstantLROptions options)
    : ConstantLR(optimizer, options.factor, options.total_iters) {}
double ConstantLR::rate(double base, int64_t t) const {
  return t < total_ || total_ == 0 ? base * factor_ : base;
}
double ConstantLR::next(double now, double base, int64_t t) const {
  if (t != total_) return now;
  return factor_ != 0 ? now / factor_ : base;
}

PolynomialLR::PolynomialLR(const OptimizerHere& optimizer, int64_t total_iters, double power)
    : Scheduler(optimizer), total_(total_iters), power_(power) {
  const ErrorLine line(optimizer.where());
  require_from("PolynomialLR", "total_iters", total_iters, 1);
  check_range("PolynomialLR", "power", power, 0, kNoLimit);
  apply();
}
double PolynomialLR::rate(double base, int64_t t) const {
  return base * std::pow(1 - double(std::min(t, total_)) / double(total_), power_);
}
double PolynomialLR::next(double now, double, int64_t t) const {
  return t > total_ ? now : now * (rate(1, t) / rate(1, t - 1));
}

MultiplicativeLR::MultiplicativeLR(const OptimizerHere& optimizer,
                                   std::function<double(int64_t)> factor)
    : Scheduler(optimizer), factor_(std::move(factor)) {
  const ErrorLine line(optimizer.where());
  if (!factor_) fail<ArgumentError>("MultiplicativeLR: no function");
  apply();
}
double MultiplicativeLR::rate(double base, int64_t t) const {
  if (t < known_) known_ = 0, product_ = 1, last_ = 1;
  while (known_ < t) product_ *= last_ = factor_(++known_);
  return base * product_;
}
double MultiplicativeLR::next(double now, double, int64_t t) const {
  rate(1, t);
  return now * last_;
}

CyclicLR::CyclicLR(const OptimizerHere& optimizer, CyclicLROptions options)
    : Scheduler(optimizer), options_(options) {
  const ErrorLine line(optimizer.where());
  check_range("CyclicLR", "base_lr", options.base_lr, 0, kNoLimit);
  check_range("CyclicLR", "max_lr", options.max_lr, options.base_lr, kNoLimit);
  check_range("CyclicLR", "gamma", options.gamma, 0, kNoLimit);
  require_from("CyclicLR", "step_size_up", options.step_size_up, 1);
  require_from("CyclicLR", "step_size_down", options.step_size_down, 0);
  check_momenta("CyclicLR", options.base_momentum, options.max_momentum);
  if (options_.step_size_down == 0) options_.step_size_down = options_.step_size_up;
  set_initial_rates(options.base_lr, /*only_unscheduled=*/true);
  apply();
}
double CyclicLR::height(int64_t t) const {
  const auto& o = options_;
  const double up = double(o.step_size_up), length = up + double(o.step_size_down);
  const double cycle = std::floor(double(t) / length), at = double(t) - cycle * length;
  double height = at <= up ? at / up : (length - at) / (length - up);
  if (o.mode == CycleMode::kTriangular2) height *= std::pow(0.5, cycle);
  if (o.mode == CycleMode::kExpRange) height *= std::pow(o.gamma, double(t));
  return height;
}
double CyclicLR::rate(double, int64_t t) const {
  return options_.base_lr + (options_.max_lr - options_.base_lr) * height(t);
}
std::optional<double> CyclicLR::momentum(int64_t t) const {
  if (!options_.cycle_momentum) return {};
  return options_.max_momentum - (options_.max_momentum - options_.base_momentum) * height(t);
}

SWALR::SWALR(const OptimizerHere& optimizer, SWALROptions options)
    : Scheduler(optimizer), options_(options) {
  const ErrorLine line(optimizer.where());
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
double SWALR::next(double now, double base, int64_t t) const {
  const bool has_arrived = rate(0, t - 1) == rate(1, t - 1);
  return has_arrived ? options_.swa_lr : Scheduler::next(now, base, t);
}

ReduceLROnPlateau::ReduceLROnPlateau(const OptimizerHere& optimizer,
                                     ReduceLROnPlateauOptions options)
    : optimizer_(optimizer),
      options_(options),
      best_(options.mode == PlateauMode::kMin ? kNoLimit : -kNoLimit) {
  const ErrorLine line(optimizer.where());
  check_range("ReduceLROnPlateau", "factor", options.factor, 0, 1);
  check_range("ReduceLROnPlateau", "threshold", options.threshold, 0, kNoLimit);
  check_range("ReduceLROnPlateau", "min_lr", options.min_lr, 0, kNoLimit);
  check_range("ReduceLROnPlateau", "eps", options.eps, 0, kNoLimit);
  require_from("ReduceLROnPlateau", "patience", options.patience, 0);
  require_from("ReduceLROnPlateau", "cooldown", options.cooldown, 0);
}

Rates ReduceLROnPlateau::get_last_lr() const { return rates_of(optimizer_.get()); }

bool ReduceLROnPlateau::improves(double measure) const {
  const bool less = options_.mode == PlateauMode::kMin;
  if (std::isinf(best_)) return less ? measure < best_ : measure > best_;
  const double change = less ? -options_.threshold : options_.threshold;
  const double bound =
      options_.threshold_mode == ThresholdMode::kRelative ? best_ * (1 + change) : best_ + change;
  return less ? measure < bound : measure > bound;
}

void ReduceLROnPlateau::step(double measure) {
  if (improves(measure)) {
    best_ = measure;
    bad_steps_ = 0;
  } else {
    ++bad_steps_;
  }
  if (cooling_ > 0) {
    --cooling_;
    bad_steps_ = 0;
  }
  if (bad_steps_ <= options_.patience) return;
  Optimizer& optimizer = optimizer_.get();
  for (int64_t group = 0; group < optimizer.group_count(); ++group) {
    const double old = optimizer.lr(group);
    const double lr = std::max(old * options_.factor, options_.min_lr);
    if (old - lr > options_.eps) optimizer.schedule_lr(size_t(group), lr);
  }
  cooling_ = options_.cooldown;
  bad_steps_ = 0;
}

TensorMap ReduceLROnPlateau::state_dict() const {
  return {{"best", Tensor::full({}, best_, f64)},
          {"bad_steps", Tensor::full({}, bad_steps_, i64)},
          {"cooling", Tensor::full({}, cooling_, i64)}};
}

void ReduceLROnPlateau::load_state_dict(const TensorMap& state) {
  const double best = number_at(state, "best").item();
  const int64_t bad = number_at(state, "bad_steps").number().to<int64_t>();
  const int64_t cooling = number_at(state, "cooling").number().to<int64_t>();
  if (std::isnan(best)) fail<ArgumentError>("ReduceLROnPlateau: load_state_dict: best is NaN");
  require_from("ReduceLROnPlateau: load_state_dict", "bad_steps", bad, 0);
  require_from("ReduceLROnPlateau: load_state_dict", "cooling", cooling, 0);
  best_ = best;
  cooling_ = cooling;
  bad_steps_ = bad;
}

Rates::Rates(std::vector<double> rates) : vector(std::move(rates)) {}
std::optional<double> Scheduler::momentum(int64_t) const { return {}; }
Optimizer& Scheduler::optimizer() const { return optimizer_.get(); }
Where Scheduler::made_at() const { return optimizer_.where(); }
StepLR::StepLR(const OptimizerHere& optimizer, int64_t step_size, double gamma)
    : StepLR(optimizer, StepLROptions{step_size, gamma}) {}
StepLR::StepLR(const OptimizerHere& optimizer, int64_t step_size, GammaOption rest)
    : StepLR(optimizer, StepLROptions{step_size, rest.gamma}) {}
MultiStepLR::MultiStepLR(const OptimizerHere& optimizer, std::initializer_list<int64_t> milestones,
                         double gamma)
    : MultiStepLR(optimizer, MultiStepLROptions{milestones, gamma}) {}
MultiStepLR::MultiStepLR(const OptimizerHere& optimizer, std::initializer_list<int64_t> milestones,
                         GammaOption rest)
    : MultiStepLR(optimizer, MultiStepLROptions{milestones, rest.gamma}) {}
ExponentialLR::ExponentialLR(const OptimizerHere& optimizer, GammaOption option)
    : ExponentialLR(optimizer, option.gamma) {}
CosineAnnealingLR::CosineAnnealingLR(const OptimizerHere& optimizer, int64_t T_max, double eta_min)
    : CosineAnnealingLR(optimizer, CosineAnnealingLROptions{T_max, eta_min}) {}
CosineAnnealingLR::CosineAnnealingLR(const OptimizerHere& optimizer, int64_t T_max, Rest rest)
    : CosineAnnealingLR(optimizer, CosineAnnealingLROptions{T_max, rest.eta_min}) {}
OneCycleLR::OneCycleLR(const OptimizerHere& optimizer, double max_lr, int64_t total_steps)
    : OneCycleLR(optimizer, OneCycleLROptions{max_lr, total_steps}) {}
OneCycleLR::OneCycleLR(const OptimizerHere& optimizer, double max_lr, OneCycleLROptions options)
    : OneCycleLR(optimizer, (options.max_lr = max_lr, options)) {}
double OneCycleLR::rate(double, int64_t t) const { return at(t).rate; }
PolynomialLR::PolynomialLR(const OptimizerHere& optimizer, PolynomialLROptions options)
    : PolynomialLR(optimizer, options.total_iters, options.power) {}
PolynomialLR::PolynomialLR(const OptimizerHere& optimizer, int64_t total_iters, Rest rest)
    : PolynomialLR(optimizer, total_iters, rest.power) {}
CyclicLR::CyclicLR(const OptimizerHere& optimizer, double base_lr, double max_lr,
                   int64_t step_size_up)
    : CyclicLR(optimizer, CyclicLROptions{base_lr, max_lr, step_size_up}) {}
CyclicLR::CyclicLR(const OptimizerHere& optimizer, double base_lr, double max_lr,
                   int64_t step_size_up, Rest rest)
    : CyclicLR(optimizer, base_lr, max_lr, (rest.step_size_up = step_size_up, rest)) {}
CyclicLR::CyclicLR(const OptimizerHere& optimizer, double base_lr, double max_lr, Rest rest)
    : CyclicLR(optimizer, CyclicLROptions{base_lr, max_lr, rest.step_size_up, rest.step_size_down,
                                          rest.mode, rest.gamma, rest.cycle_momentum,
                                          rest.base_momentum, rest.max_momentum}) {}
SWALR::SWALR(const OptimizerHere& optimizer, double swa_lr, int64_t anneal_epochs,
             Choice<AnnealStrategy> anneal_strategy)
    : SWALR(optimizer, SWALROptions{swa_lr, anneal_epochs, anneal_strategy}) {}
void ReduceLROnPlateau::step(const Variable& measure) { step(measure.item()); }
}  // namespace tapegrad::optim
