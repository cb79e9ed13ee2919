// Schedules of the learning rate, PyTorch's. Each changes the optimizer's rates when it is made and
// at every step(), once an epoch or once a batch as its numbers mean.
//
//   optim::CosineAnnealingLR schedule(opt, {.T_max = 20});
//   for (int epoch = 0; epoch < 20; ++epoch) {
//     ...
//     schedule.step();
//   }
//
// Rates are computed from the step number and the rates at the beginning, so they do not drift.
// `t` is the number of steps made.
#pragma once

#include "optim/optimizer.h"

namespace tapegrad::optim {

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  void step();
  int64_t steps() const { return steps_; }

  /// "step" and the rates at the beginning; load_state_dict also sets the optimizer's rates.
  virtual TensorMap state_dict() const;
  virtual void load_state_dict(const TensorMap& state);

 protected:
  explicit Scheduler(Optimizer& optimizer);
  /// The rate after t steps of a group that began with `base`.
  virtual double rate(double base, int64_t t) const = 0;
  void apply();

  Optimizer& optimizer_;
  std::vector<double> bases_;

 private:
  friend class WarmupLR;
  int64_t steps_ = 0;
};

struct StepLROptions {
  int64_t step_size = 0;  // required
  double gamma = 0.1;
};
/// base gamma^floor(t / step_size).
class StepLR final : public Scheduler {
 public:
  StepLR(Optimizer& optimizer, StepLROptions options);

 private:
  double rate(double base, int64_t t) const override;
  StepLROptions options_;
};

struct MultiStepLROptions {
  std::vector<int64_t> milestones = {};  // ascending; required
  double gamma = 0.1;
};
/// base gamma^(number of milestones <= t).
class MultiStepLR final : public Scheduler {
 public:
  MultiStepLR(Optimizer& optimizer, MultiStepLROptions options);

 private:
  double rate(double base, int64_t t) const override;
  MultiStepLROptions options_;
};

/// base gamma^t.
class ExponentialLR final : public Scheduler {
 public:
  ExponentialLR(Optimizer& optimizer, double gamma);

 private:
  double rate(double base, int64_t t) const override;
  double gamma_;
};

struct CosineAnnealingLROptions {
  int64_t T_max = 0;  // steps from the highest to the lowest rate; required
  double eta_min = 0.0;
};
/// eta_min + (base - eta_min) (1 + cos(pi t / T_max)) / 2.
class CosineAnnealingLR final : public Scheduler {
 public:
  CosineAnnealingLR(Optimizer& optimizer, CosineAnnealingLROptions options);

 private:
  double rate(double base, int64_t t) const override;
  CosineAnnealingLROptions options_;
};

struct LinearLROptions {
  double start_factor = 1.0 / 3;
  double end_factor = 1.0;
  int64_t total_iters = 5;
};
/// base times a factor that goes from start_factor to end_factor in total_iters steps: a warm-up.
class LinearLR final : public Scheduler {
 public:
  explicit LinearLR(Optimizer& optimizer, LinearLROptions options = {});

 private:
  double rate(double base, int64_t t) const override;
  LinearLROptions options_;
};

enum class Anneal { kCosine, kLinear };
struct OneCycleLROptions {
  double max_lr = 0;        // required
  int64_t total_steps = 0;  // required; a further step is an ArgumentError
  double pct_start = 0.3;   // share of the steps in which the rate grows
  Anneal anneal_strategy = Anneal::kCosine;
  double div_factor = 25.0;       // it begins with max_lr / div_factor
  double final_div_factor = 1e4;  // and ends with that / final_div_factor
};
/// Smith and Topin 2017, in two phases; step() after every batch. Momentum stays.
class OneCycleLR final : public Scheduler {
 public:
  OneCycleLR(Optimizer& optimizer, OneCycleLROptions options);

 private:
  double rate(double base, int64_t t) const override;
  OneCycleLROptions options_;
};

struct WarmupOptions {
  int64_t warmup_steps = 0;  // required
  double start_factor = 0.0;
};
/// Grows the rate linearly from start_factor of it over the first steps, then hands over to another
/// schedule of the same optimizer, which begins at its own step 0:
///
///   optim::CosineAnnealingLR cosine(opt, {.T_max = 90});
///   optim::WarmupLR schedule(opt, cosine, {.warmup_steps = 10});
///
/// Only this one is stepped and saved; the other has no state of its own.
class WarmupLR final : public Scheduler {
 public:
  WarmupLR(Optimizer& optimizer, Scheduler& after, WarmupOptions options);

 private:
  double rate(double base, int64_t t) const override;
  Scheduler& after_;
  WarmupOptions options_;
};

enum class PlateauMode { kMin, kMax };
struct ReduceLROnPlateauOptions {
  PlateauMode mode = PlateauMode::kMin;  // whether less or more is better
  double factor = 0.1;
  int64_t patience = 10;    // steps without improvement that are waited for
  double threshold = 1e-4;  // what counts as an improvement,
  bool relative = true;     // as a share of the best value, or absolutely
  int64_t cooldown = 0;     // steps after a reduction in which nothing is counted
  double min_lr = 0.0;
  double eps = 1e-8;  // a smaller change of the rate is not made
};
/// Multiplies the rates by `factor` when a measure has stopped improving: `schedule.step(loss)`.
class ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options = {});

  void step(double measure);
  double best() const { return best_; }
  TensorMap state_dict() const;
  void load_state_dict(const TensorMap& state);

 private:
  bool improves(double measure) const;

  Optimizer& optimizer_;
  ReduceLROnPlateauOptions options_;
  double best_;
  int64_t bad_steps_ = 0, cooling_ = 0;
};

}  // namespace tapegrad::optim
