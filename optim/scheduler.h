// Schedules of the learning rate, as in PyTorch. A scheduler sets the optimizer's learning rates in
// its constructor and at every step(). Call step() once per epoch or per batch, in the unit of the
// options.
//
//   optim::CosineAnnealingLR schedule(opt, {.T_max = 20});
//   for (int epoch = 0; epoch < 20; ++epoch) {
//     ...
//     schedule.step();
//   }
//
// Rates are computed from the step number and the initial rates, so they do not drift. `t` is the
// number of steps made. If another scheduler or the program has changed a rate since the last step,
// step() changes the new rate as PyTorch does: most schedules multiply the rate by the factor by
// which their formula changes, also a rate of 0. Several schedulers of one optimizer, and a
// ReduceLROnPlateau, can therefore be combined. LambdaLR, OneCycleLR, CyclicLR and
// CosineAnnealingWarmRestarts always set the rate of their formula.
//
// A scheduler may be moved, for example into a std::vector, and follows an optimizer that is moved.
// If the optimizer is destroyed, step() throws ArgumentError.
#pragma once

#include <concepts>
#include <functional>
#include <optional>

#include "core/base/choice.h"
#include "optim/optimizer.h"

namespace tapegrad::optim {

/// Learning rates, one per group. Prints "[0.1, 0.01]".
struct Rates : std::vector<double> {
  Rates(std::vector<double> rates);
};
std::ostream& operator<<(std::ostream& out, const Rates& rates);

class Scheduler : public tapegrad::detail::Tracked {
 public:
  virtual ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;
  /// Moves the optimizer, the rates and the step number.
  Scheduler(Scheduler&& other) noexcept;
  Scheduler& operator=(Scheduler&& other) noexcept;

  void step(Where where = Where::current());
  int64_t steps() const { return steps_; }
  int64_t last_epoch() const { return steps_; }
  /// Returns the rates of the groups since the last step.
  Rates get_last_lr() const;

  /// Returns "step", the initial rates and the rates. load_state_dict() also sets the optimizer's
  /// rates.
  virtual TensorMap state_dict() const;
  virtual void load_state_dict(const TensorMap& state);
  template <std::same_as<Tensor> T>
  auto load_state_dict(const T&) {
    static_assert(
        tapegrad::detail::kNever<T>,
        "load_state_dict(run[\"steps\"]): write load_state_dict(part_of(run, \"steps\"))");
  }

 protected:
  explicit Scheduler(const OptimizerHere& optimizer);
  /// Returns the rate after t steps of a group whose initial rate is `base`.
  virtual double rate(double base, int64_t t) const = 0;
  /// Returns the rate after t steps, t > 0, of a group whose initial rate is `base` and whose rate
  /// after t - 1 steps was set to `now` by other code. The default computes the initial rate that
  /// would have led to `now`, for a rate() that is linear in the initial rate.
  virtual double next(double now, double base, int64_t t) const;
  /// Returns whether step() sets rate(base, t) even if other code has changed the rate since the
  /// last step.
  virtual bool is_absolute() const { return false; }
  /// Returns the momentum, or beta1, after t steps, for optimizers that have one. nullopt leaves it
  /// unchanged.
  virtual std::optional<double> momentum(int64_t) const;
  /// Returns whether step() calls next() even if no other code has changed the rate, because no
  /// formula gives the rate from the initial rate alone.
  virtual bool is_stepwise() const { return false; }
  /// Sets the rates. For constructors.
  void apply();
  /// Sets the rates and the number of steps made.
  void jump(const std::vector<double>& rates, int64_t steps);
  /// Returns the rates that the program set, before schedulers changed them.
  std::vector<double> initial_rates() const;

  /// Throws ArgumentError if the optimizer no longer exists.
  Optimizer& optimizer() const;
  Where made_at() const;
  /// Sets the initial rates of the groups, which schedulers constructed later use; only those of
  /// groups without a scheduler if `only_unscheduled`.
  void set_initial_rates(double rate, bool only_unscheduled);

  std::vector<double> bases_;  // rates of the groups before the first step

 private:
  friend class WarmupLR;
  friend class SequentialLR;
  friend class ChainedScheduler;

  /// Sets the rates, and the momentum of step t. `own` are the results of rate(), which differ from
  /// `rates` if other code has changed a rate.
  void set_rates(const std::vector<double>& own, const std::vector<double>& rates, int64_t t);
  /// Returns rate() if the schedule is absolute, otherwise next().
  double following(double now, double base, int64_t t) const;

  OptimizerHere optimizer_;
  int64_t steps_ = 0;
  std::vector<double> initials_;  // rates of the groups before the first scheduler
  std::vector<double> own_;       // rate() of the groups since the last step
};

/// Newer name in PyTorch.
using LRScheduler = Scheduler;

/// Option of StepLR(optimizer, 30, {.gamma = 0.5}).
struct GammaOption {
  ByName by_name = {};
  double gamma = 0.1;
};

struct StepLROptions {
  int64_t step_size = 0;  // required
  double gamma = 0.1;
};
/// Rate: base gamma^floor(t / step_size).
class StepLR final : public Scheduler {
 public:
  StepLR(const OptimizerHere& optimizer, StepLROptions options);
  StepLR(const OptimizerHere& optimizer, int64_t step_size, double gamma = 0.1);
  StepLR(const OptimizerHere& optimizer, int64_t step_size, GammaOption rest);

 private:
  double rate(double base, int64_t t) const override;
  double next(double now, double base, int64_t t) const override;
  StepLROptions options_;
};

struct MultiStepLROptions {
  std::vector<int64_t> milestones = {};  // ascending; required
  double gamma = 0.1;
};
/// Rate: base gamma^(number of milestones <= t).
class MultiStepLR final : public Scheduler {
 public:
  MultiStepLR(const OptimizerHere& optimizer, MultiStepLROptions options);
  /// Takes the milestones alone. An array, because g++ takes {.milestones = ...} for a list.
  template <std::integral Int, size_t n>
  MultiStepLR(const OptimizerHere& optimizer, const Int (&milestones)[n])
      : MultiStepLR(optimizer, MultiStepLROptions{{milestones, milestones + n}}) {}
  MultiStepLR(const OptimizerHere& optimizer, std::initializer_list<int64_t> milestones,
              double gamma);
  MultiStepLR(const OptimizerHere& optimizer, std::initializer_list<int64_t> milestones,
              GammaOption rest);

 private:
  double rate(double base, int64_t t) const override;
  double next(double now, double base, int64_t t) const override;
  MultiStepLROptions options_;
};

/// Rate: base gamma^t.
class ExponentialLR final : public Scheduler {
 public:
  ExponentialLR(const OptimizerHere& optimizer, double gamma);
  ExponentialLR(const OptimizerHere& optimizer, GammaOption option);

 private:
  double rate(double base, int64_t t) const override;
  double next(double now, double base, int64_t t) const override;
  double gamma_;
};

struct CosineAnnealingLROptions {
  int64_t T_max = 0;  // steps from the highest to the lowest rate; required
  double eta_min = 0.0;
};
/// Rate: eta_min + (base - eta_min) (1 + cos(pi t / T_max)) / 2.
class CosineAnnealingLR final : public Scheduler {
 public:
  CosineAnnealingLR(const OptimizerHere& optimizer, CosineAnnealingLROptions options);
  CosineAnnealingLR(const OptimizerHere& optimizer, int64_t T_max, double eta_min = 0.0);
  struct Rest {
    ByName by_name = {};
    double eta_min = 0.0;
  };
  CosineAnnealingLR(const OptimizerHere& optimizer, int64_t T_max, Rest rest);

 private:
  double rate(double base, int64_t t) const override;
  double next(double now, double base, int64_t t) const override;
  CosineAnnealingLROptions options_;
};

struct LinearLROptions {
  double start_factor = 1.0 / 3;
  double end_factor = 1.0;
  int64_t total_iters = 5;
};
/// Rate: base times a factor that changes linearly from start_factor to end_factor in total_iters
/// steps, for a warm-up.
class LinearLR final : public Scheduler {
 public:
  explicit LinearLR(const OptimizerHere& optimizer, LinearLROptions options = {});
  LinearLR(const OptimizerHere& optimizer, Rate auto start_factor, double end_factor = 1.0,
           int64_t total_iters = 5)
      : LinearLR(optimizer, LinearLROptions{double(start_factor), end_factor, total_iters}) {}

 private:
  double rate(double base, int64_t t) const override;
  double next(double now, double base, int64_t t) const override;
  LinearLROptions options_;
};

enum class AnnealStrategy { kCos, kLinear };
constexpr auto choice_names(AnnealStrategy) {
  return std::to_array<ChoiceName<AnnealStrategy>>(
      {{"cos", AnnealStrategy::kCos}, {"linear", AnnealStrategy::kLinear}});
}
struct OneCycleLROptions {
  double max_lr = 0;        // required
  int64_t total_steps = 0;  // number of steps; one more throws ArgumentError. Required, or:
  int64_t epochs = 0, steps_per_epoch = 0;  // total_steps is the product
  double pct_start = 0.3;                   // share of the steps in which the rate grows
  Choice<AnnealStrategy> anneal_strategy = AnnealStrategy::kCos;
  bool cycle_momentum = true;  // the momentum, or beta1, falls while the rate grows
  double base_momentum = 0.85, max_momentum = 0.95;
  double div_factor = 25.0;       // the initial rate is max_lr / div_factor
  double final_div_factor = 1e4;  // the last rate is the initial rate / final_div_factor
  bool three_phase = false;       // the rate falls to the initial rate as fast as it grew
};
/// One-cycle policy (Smith and Topin 2017). Call step() after every batch. Sets the momentum of SGD
/// and RMSprop and beta1 of Adam and its variants, even if the optimizer was constructed with
/// another value.
class OneCycleLR final : public Scheduler {
 public:
  OneCycleLR(const OptimizerHere& optimizer, OneCycleLROptions options);
  OneCycleLR(const OptimizerHere& optimizer, double max_lr, int64_t total_steps);
  /// Takes max_lr by position, in place of the one in the options.
  OneCycleLR(const OptimizerHere& optimizer, double max_lr, OneCycleLROptions options);

 private:
  struct Values {
    double rate, momentum;
  };
  Values at(int64_t t) const;
  double rate(double, int64_t t) const override;
  bool is_absolute() const override { return true; }
  std::optional<double> momentum(int64_t t) const override;
  OneCycleLROptions options_;
};

/// Rate: base times factor(t).
class LambdaLR final : public Scheduler {
 public:
  LambdaLR(const OptimizerHere& optimizer, std::function<double(int64_t)> factor);

 private:
  double rate(double base, int64_t t) const override;
  bool is_absolute() const override { return true; }
  std::function<double(int64_t)> factor_;
};

struct CosineAnnealingWarmRestartsOptions {
  ByName by_name = {};
  int64_t T_0 = 0;  // required
  int64_t T_mult = 1;
  double eta_min = 0.0;
};
/// Rate: eta_min + (base - eta_min) (1 + cos(pi s / T)) / 2, where s is the number of steps since
/// the last restart and T is the length of the period: T_0, multiplied by T_mult at each restart
/// (Loshchilov and Hutter 2017).
class CosineAnnealingWarmRestarts final : public Scheduler {
 public:
  using Scheduler::step;
  /// Sets the rate after `epoch` steps, of which the last one may be a part: step(epoch + i /
  /// batches). Throws ArgumentError for a negative or infinite number.
  void step(double epoch, Where where = Where::current());
  CosineAnnealingWarmRestarts(const OptimizerHere& optimizer, int64_t T_0, int64_t T_mult = 1,
                              double eta_min = 0.0);
  CosineAnnealingWarmRestarts(const OptimizerHere& optimizer,
                              CosineAnnealingWarmRestartsOptions options);

 private:
  double rate(double base, int64_t t) const override;
  bool is_absolute() const override { return true; }
  double rate_at(double base, double t) const;
  int64_t first_, factor_;
  double eta_min_;
};

struct ConstantLROptions {
  ByName by_name = {};
  double factor = 1.0 / 3;
  int64_t total_iters = 5;
};
/// Rate: base times factor during the first total_iters steps, then base. With total_iters = 0,
/// base times factor in all steps, as in PyTorch.
class ConstantLR final : public Scheduler {
 public:
  explicit ConstantLR(const OptimizerHere& optimizer, double factor = 1.0 / 3,
                      int64_t total_iters = 5);
  ConstantLR(const OptimizerHere& optimizer, ConstantLROptions options);

 private:
  double rate(double base, int64_t t) const override;
  double next(double now, double base, int64_t t) const override;
  double factor_;
  int64_t total_;
};

struct PolynomialLROptions {
  ByName by_name = {};
  int64_t total_iters = 5;
  double power = 1.0;
};
/// Rate: base (1 - t / total_iters)^power; 0 after total_iters steps.
class PolynomialLR final : public Scheduler {
 public:
  explicit PolynomialLR(const OptimizerHere& optimizer, int64_t total_iters = 5,
                        double power = 1.0);
  PolynomialLR(const OptimizerHere& optimizer, PolynomialLROptions options);
  struct Rest {
    ByName by_name = {};
    double power = 1.0;
  };
  PolynomialLR(const OptimizerHere& optimizer, int64_t total_iters, Rest rest);

 private:
  double rate(double base, int64_t t) const override;
  double next(double now, double base, int64_t t) const override;
  int64_t total_;
  double power_;
};

/// Rate: base factor(1) factor(2) ... factor(t).
class MultiplicativeLR final : public Scheduler {
 public:
  MultiplicativeLR(const OptimizerHere& optimizer, std::function<double(int64_t)> factor);

 private:
  double rate(double base, int64_t t) const override;
  double next(double now, double base, int64_t t) const override;
  std::function<double(int64_t)> factor_;
  // Product of the factors up to step `known_`, and the factor of this step.
  mutable int64_t known_ = 0;
  mutable double product_ = 1, last_ = 1;
};

enum class CycleMode { kTriangular, kTriangular2, kExpRange };
constexpr auto choice_names(CycleMode) {
  return std::to_array<ChoiceName<CycleMode>>({{"triangular", CycleMode::kTriangular},
                                               {"triangular2", CycleMode::kTriangular2},
                                               {"exp_range", CycleMode::kExpRange}});
}
struct CyclicLROptions {
  double base_lr = 0, max_lr = 0;  // the lowest and the highest rate; max_lr is required
  int64_t step_size_up = 2000;
  int64_t step_size_down = 0;  // default: step_size_up
  Choice<CycleMode> mode = CycleMode::kTriangular;
  double gamma = 1.0;          // for kExpRange
  bool cycle_momentum = true;  // the momentum, or beta1, falls while the rate grows
  double base_momentum = 0.8, max_momentum = 0.9;
};
/// Rate that rises from base_lr to max_lr and falls back, repeatedly (Smith 2015). kTriangular2
/// halves the height with each cycle, kExpRange multiplies the height by gamma^t. Sets the momentum
/// as OneCycleLR does.
class CyclicLR final : public Scheduler {
 public:
  CyclicLR(const OptimizerHere& optimizer, CyclicLROptions options);
  CyclicLR(const OptimizerHere& optimizer, double base_lr, double max_lr,
           int64_t step_size_up = 2000);
  struct Rest {
    ByName by_name = {};
    int64_t step_size_up = 2000, step_size_down = 0;
    Choice<CycleMode> mode = CycleMode::kTriangular;
    double gamma = 1.0;
    bool cycle_momentum = true;
    double base_momentum = 0.8, max_momentum = 0.9;
  };
  CyclicLR(const OptimizerHere& optimizer, double base_lr, double max_lr, Rest rest);
  CyclicLR(const OptimizerHere& optimizer, double base_lr, double max_lr, int64_t step_size_up,
           Rest rest);

 private:
  double height(int64_t t) const;  // in [0, 1]
  double rate(double base, int64_t t) const override;
  bool is_absolute() const override { return true; }
  std::optional<double> momentum(int64_t t) const override;
  CyclicLROptions options_;
};

struct SWALROptions {
  double swa_lr = 0;  // required
  int64_t anneal_epochs = 10;
  Choice<AnnealStrategy> anneal_strategy = AnnealStrategy::kCos;
};
/// Moves the rate to swa_lr within anneal_epochs steps and keeps it there: the schedule of
/// stochastic weight averaging (optim/swa_utils.h).
class SWALR final : public Scheduler {
 public:
  SWALR(const OptimizerHere& optimizer, SWALROptions options);
  SWALR(const OptimizerHere& optimizer, double swa_lr, int64_t anneal_epochs = 10,
        Choice<AnnealStrategy> anneal_strategy = AnnealStrategy::kCos);

 private:
  double rate(double base, int64_t t) const override;
  double next(double now, double base, int64_t t) const override;
  SWALROptions options_;
};

enum class PlateauMode { kMin, kMax };
constexpr auto choice_names(PlateauMode) {
  return std::to_array<ChoiceName<PlateauMode>>(
      {{"min", PlateauMode::kMin}, {"max", PlateauMode::kMax}});
}
enum class ThresholdMode { kRelative, kAbsolute };
constexpr auto choice_names(ThresholdMode) {
  return std::to_array<ChoiceName<ThresholdMode>>(
      {{"rel", ThresholdMode::kRelative}, {"abs", ThresholdMode::kAbsolute}});
}
struct ReduceLROnPlateauOptions {
  Choice<PlateauMode> mode = PlateauMode::kMin;  // whether a smaller or a larger measure is better
  double factor = 0.1;
  int64_t patience = 10;    // steps without improvement before a reduction
  double threshold = 1e-4;  // smallest change that counts as an improvement
  Choice<ThresholdMode> threshold_mode = ThresholdMode::kRelative;  // to the best, or absolute
  int64_t cooldown = 0;  // steps after a reduction that are not counted
  double min_lr = 0.0;
  double eps = 1e-8;  // smaller changes of the rate are not made
};
/// Multiplies the rates by `factor` when a measure has stopped improving: `schedule.step(loss)`. A
/// measure improves, as in PyTorch, if it is below best * (1 - threshold), or with "max" above best
/// * (1 + threshold). If the best value is negative, this bound is worse than the best value: set
/// .threshold_mode = "abs" for a measure that may be negative.
class ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(const OptimizerHere& optimizer, ReduceLROnPlateauOptions options = {});
  /// mode is "min" or "max".
  template <std::convertible_to<std::string_view> Mode>
  ReduceLROnPlateau(const OptimizerHere& optimizer, const Mode& mode, double factor = 0.1,
                    int64_t patience = 10, double threshold = 1e-4,
                    Choice<ThresholdMode> threshold_mode = ThresholdMode::kRelative,
                    int64_t cooldown = 0, double min_lr = 0.0, double eps = 1e-8)
      : ReduceLROnPlateau(optimizer, {{mode, optimizer.where()},
                                      factor,
                                      patience,
                                      threshold,
                                      threshold_mode,
                                      cooldown,
                                      min_lr,
                                      eps}) {}

  template <std::convertible_to<std::string_view> Mode>
  ReduceLROnPlateau(const OptimizerHere& optimizer, const Mode& mode,
                    ReduceLROnPlateauOptions options)
      : ReduceLROnPlateau(optimizer, (options.mode = {mode, optimizer.where()}, options)) {}

  void step(double measure);
  void step(const Variable& measure);
  double best() const { return best_; }
  /// Returns the rates of the groups since the last step.
  Rates get_last_lr() const;
  TensorMap state_dict() const;
  void load_state_dict(const TensorMap& state);
  template <std::same_as<Tensor> T>
  auto load_state_dict(const T&) {
    static_assert(
        tapegrad::detail::kNever<T>,
        "load_state_dict(run[\"steps\"]): write load_state_dict(part_of(run, \"steps\"))");
  }

 private:
  bool improves(double measure) const;

  OptimizerHere optimizer_;
  ReduceLROnPlateauOptions options_;
  double best_;
  int64_t bad_steps_ = 0, cooling_ = 0;
};

/// PyTorch's namespace: `optim::lr_scheduler::StepLR`.
namespace lr_scheduler = ::tapegrad::optim;

}  // namespace tapegrad::optim
