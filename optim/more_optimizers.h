// Rprop and ASGD. Formulas, names and defaults are PyTorch's.
#pragma once

#include <utility>

#include "optim/optimizer.h"

namespace tapegrad::optim {

struct RpropOptions {
  double lr = 1e-2;                                   // the first step of every element
  std::pair<double, double> etas = {0.5, 1.2};        // factors of an element's step
  std::pair<double, double> step_sizes = {1e-6, 50};  // the smallest and the largest step
};
/// Resilient backpropagation (Riedmiller and Braun 1993), for gradients of all data: the sign of an
/// element's gradient gives the direction, and its changes the size of the step. State: prev,
/// step_size.
class Rprop final : public Optimizer {
 public:
  explicit Rprop(Params params, RpropOptions options = {});
  Rprop(Params params, Rate auto lr) : Rprop(std::move(params), RpropOptions{.lr = double(lr)}) {}

 private:
  std::vector<StateInfo> state_info(const Group& group) const override;
  void update(const Group&, const ParamUpdates& params, const StepGuard& guard) override;

  RpropOptions options_;
};

struct ASGDOptions {
  double lr = 1e-2;
  double lambd = 1e-4;  // decay of the parameters and of the rate
  double alpha = 0.75;  // the rate of step t is lr / (1 + lambd lr (t - 1))^alpha
  double t0 = 1e6;      // the step after which values are averaged
  double weight_decay = 0.0;
};
/// Averaged gradient descent (Polyak and Juditsky 1992). State: ax, the average.
class ASGD final : public Optimizer {
 public:
  explicit ASGD(Params params, ASGDOptions options = {});
  ASGD(Params params, Rate auto lr) : ASGD(std::move(params), ASGDOptions{.lr = double(lr)}) {}

 private:
  std::vector<StateInfo> state_info(const Group& group) const override;
  void update(const Group&, const ParamUpdates& params, const StepGuard& guard) override;

  ASGDOptions options_;
};

}  // namespace tapegrad::optim
