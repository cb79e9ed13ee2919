// Lion: steps of the sign of the momentum.
#pragma once

#include <utility>

#include "optim/custom.h"

namespace tapegrad::optim {

struct LionOptions {
  double lr = 1e-4;
  std::pair<double, double> betas = {0.9, 0.99};
  double weight_decay = 0.0;
  bool maximize = false;  // make steps that increase the loss
};
/// Steps of equal size in every element (Chen et al. 2023):
///
///   p = (1 - lr weight_decay) p - lr sign(beta1 m + (1 - beta1) g)
///   m = beta2 m + (1 - beta2) g
///
/// Suitable rates are three to ten times smaller than those of AdamW. State: exp_avg.
class Lion final : public CustomOptimizer {
 public:
  explicit Lion(Params params, LionOptions options = {});
  Lion(Params params, Rate auto lr) : Lion(std::move(params), LionOptions{.lr = double(lr)}) {}

 private:
  void check_group(const Group& group) const override;
  void update(Parameter& parameter) override;

  std::pair<double, double> betas_;
};

}  // namespace tapegrad::optim
