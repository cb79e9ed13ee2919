// Further schedules of the learning rate, as in PyTorch; see optim/scheduler.h.
#pragma once

#include <functional>
#include <initializer_list>

#include "optim/scheduler.h"

namespace tapegrad::optim {

/// base times factor during the first total_iters steps, then base.
class ConstantLR final : public Scheduler {
 public:
  explicit ConstantLR(Optimizer& optimizer, double factor = 1.0 / 3, int64_t total_iters = 5);

 private:
  double rate(double base, int64_t t) const override;
  double factor_;
  int64_t total_;
};

/// base (1 - t / total_iters)^power; 0 after total_iters steps.
class PolynomialLR final : public Scheduler {
 public:
  explicit PolynomialLR(Optimizer& optimizer, int64_t total_iters = 5, double power = 1.0);

 private:
  double rate(double base, int64_t t) const override;
  int64_t total_;
  double power_;
};

/// base factor(1) factor(2) ... factor(t).
class MultiplicativeLR final : public Scheduler {
 public:
  MultiplicativeLR(Optimizer& optimizer, std::function<double(int64_t)> factor);

 private:
  double rate(double base, int64_t t) const override;
  std::function<double(int64_t)> factor_;
  // The product of the factors to step `known_`.
  mutable int64_t known_ = 0;
  mutable double product_ = 1;
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
  double gamma = 1.0;  // of kExpRange
};
/// Rises from base_lr to max_lr and falls back, again and again (Smith 2015). kTriangular2 halves
/// the height with each cycle, kExpRange multiplies it by gamma^t. The momentum is not changed.
class CyclicLR final : public Scheduler {
 public:
  CyclicLR(Optimizer& optimizer, CyclicLROptions options);
  CyclicLR(Optimizer& optimizer, double base_lr, double max_lr, int64_t step_size_up = 2000)
      : CyclicLR(optimizer, CyclicLROptions{base_lr, max_lr, step_size_up}) {}

 private:
  double rate(double base, int64_t t) const override;
  bool is_absolute() const override { return true; }
  CyclicLROptions options_;
};

/// Runs schedulers of one optimizer one after another, each from its step 0; the next one begins at
/// each milestone. Step and save only the SequentialLR:
///
///   optim::LinearLR warmup(opt, 0.1, 1.0, 10);
///   optim::CosineAnnealingLR cosine(opt, 90);
///   optim::SequentialLR schedule(opt, {warmup, cosine}, {10});
class SequentialLR final : public Scheduler {
 public:
  SequentialLR(Optimizer& optimizer, std::vector<Scheduler*> schedulers,
               std::vector<int64_t> milestones);
  SequentialLR(Optimizer& optimizer,
               std::initializer_list<std::reference_wrapper<Scheduler>> schedulers,
               std::vector<int64_t> milestones);

 private:
  double rate(double base, int64_t t) const override;
  std::vector<Scheduler*> schedulers_;
  std::vector<int64_t> milestones_;
};

/// Runs schedulers of one optimizer at once: each takes the rate of the scheduler before it for its
/// initial rate. Step and save only the ChainedScheduler:
///
///   optim::ConstantLR warmup(opt, 0.1, 20);
///   optim::ExponentialLR decay(opt, 0.9);
///   optim::ChainedScheduler schedule({warmup, decay});
class ChainedScheduler final : public Scheduler {
 public:
  /// Throws ArgumentError for an empty list and for schedulers of different optimizers.
  explicit ChainedScheduler(std::vector<Scheduler*> schedulers);
  explicit ChainedScheduler(std::initializer_list<std::reference_wrapper<Scheduler>> schedulers);

 private:
  static Optimizer& optimizer_of(const std::vector<Scheduler*>& schedulers);
  double rate(double base, int64_t t) const override;

  std::vector<Scheduler*> schedulers_;
};

enum class AnnealStrategy { kCos, kLinear };
constexpr auto choice_names(AnnealStrategy) {
  return std::to_array<ChoiceName<AnnealStrategy>>(
      {{"cos", AnnealStrategy::kCos}, {"linear", AnnealStrategy::kLinear}});
}
struct SWALROptions {
  double swa_lr = 0;  // required
  int64_t anneal_epochs = 10;
  Choice<AnnealStrategy> anneal_strategy = AnnealStrategy::kCos;
};
/// Moves the rate to swa_lr within anneal_epochs steps, where it stays: the schedule of stochastic
/// weight averaging (train/swa_utils.h).
class SWALR final : public Scheduler {
 public:
  SWALR(Optimizer& optimizer, SWALROptions options);
  SWALR(Optimizer& optimizer, double swa_lr, int64_t anneal_epochs = 10,
        Choice<AnnealStrategy> anneal_strategy = AnnealStrategy::kCos)
      : SWALR(optimizer, SWALROptions{swa_lr, anneal_epochs, anneal_strategy}) {}

 private:
  double rate(double base, int64_t t) const override;
  SWALROptions options_;
};

}  // namespace tapegrad::optim
