// Variants of Adam: NAdam, RAdam and Adamax. Formulas, names and defaults are PyTorch's.
#pragma once

#include <utility>

#include "optim/optimizer.h"

namespace tapegrad::optim {

namespace detail {

/// Options that the variants have in common.
struct AdamRates {
  double beta1, beta2, eps;
  bool decoupled, maximize;
};

class AdamVariant : public Optimizer {
 protected:
  /// `second` is the name of the state in addition to exp_avg.
  AdamVariant(std::string_view kind, Params params, double lr, double weight_decay, AdamRates rates,
              std::string_view second);

  AdamRates rates_of(const Group& group) const;

 private:
  void check_group(const Group& group) const override;
  void set_momentum(Group& group, double momentum) const override;
  std::vector<StateInfo> state_info(const Group& group) const override;

  std::string_view kind_, second_;
  AdamRates rates_;
};

}  // namespace detail

struct NAdamOptions {
  double lr = 2e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.0;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;
  bool maximize = false;  // make steps that increase the loss
};
/// Adam with Nesterov's momentum (Dozat 2016). State: exp_avg, exp_avg_sq.
class NAdam final : public detail::AdamVariant {
 public:
  explicit NAdam(Params params, NAdamOptions options = {});
  NAdam(Params params, Rate auto lr) : NAdam(std::move(params), NAdamOptions{.lr = double(lr)}) {}

 private:
  void update(const Group&, const ParamUpdates& params, const StepGuard& guard) override;

  double momentum_decay_;
};

struct RAdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool decoupled_weight_decay = false;
  bool maximize = false;  // make steps that increase the loss
};
/// Adam whose adaptive rate is used as soon as its variance is known (Liu et al. 2019). State:
/// exp_avg, exp_avg_sq.
class RAdam final : public detail::AdamVariant {
 public:
  explicit RAdam(Params params, RAdamOptions options = {});
  RAdam(Params params, Rate auto lr) : RAdam(std::move(params), RAdamOptions{.lr = double(lr)}) {}

 private:
  void update(const Group&, const ParamUpdates& params, const StepGuard& guard) override;
};

struct AdamaxOptions {
  double lr = 2e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool maximize = false;  // make steps that increase the loss
};
/// Adam that divides by the largest recent gradient (Kingma and Ba 2014). State: exp_avg, exp_inf.
class Adamax final : public detail::AdamVariant {
 public:
  explicit Adamax(Params params, AdamaxOptions options = {});
  Adamax(Params params, Rate auto lr)
      : Adamax(std::move(params), AdamaxOptions{.lr = double(lr)}) {}

 private:
  void update(const Group&, const ParamUpdates& params, const StepGuard& guard) override;
};

}  // namespace tapegrad::optim
