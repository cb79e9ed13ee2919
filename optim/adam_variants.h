// Variants of Adam: NAdam, RAdam and Adamax. Formulas, names and defaults are PyTorch's. They are
// written with ops, so a step takes longer than that of the fused optimizers (optim/optimizers.h).
#pragma once

#include <utility>

#include "optim/custom.h"

namespace tapegrad::optim {

namespace detail {

/// What the variants have in common.
struct AdamRates {
  double beta1, beta2, eps;
  bool decoupled;
};

class AdamVariant : public CustomOptimizer {
 protected:
  AdamVariant(std::string_view kind, Params params, double lr, double weight_decay, AdamRates rates,
              std::vector<std::string> state);

  AdamRates rates_of(const ParamGroup& own) const;
  /// Applies weight decay, updates the mean of the gradients, state[0], and returns the gradient,
  /// in the dtype of the state.
  Variable begin(Parameter& p, const AdamRates& rates) const;
  /// Updates the mean of the squared gradients, state[1].
  static void add_square(Parameter& p, const Variable& grad, const AdamRates& rates);

 private:
  void check_group(const Group& group) const override;

  std::string_view kind_;
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
};
/// Adam with Nesterov's momentum (Dozat 2016). State: exp_avg, exp_avg_sq.
class NAdam final : public detail::AdamVariant {
 public:
  explicit NAdam(Params params, NAdamOptions options = {});
  NAdam(Params params, Rate auto lr) : NAdam(std::move(params), NAdamOptions{.lr = double(lr)}) {}

 private:
  void update(Parameter& p) override;
  /// The momentum of step t, and the product of those up to t.
  double momentum(double beta1, int64_t t) const;
  double product(double beta1, int64_t t);

  double momentum_decay_;
  struct {
    double beta1 = -1, value = 1;
    int64_t t = 0;
  } last_product_;
};

struct RAdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.0;
  bool decoupled_weight_decay = false;
};
/// Adam whose adaptive rate begins when its variance is known (Liu et al. 2019). State: exp_avg,
/// exp_avg_sq.
class RAdam final : public detail::AdamVariant {
 public:
  explicit RAdam(Params params, RAdamOptions options = {});
  RAdam(Params params, Rate auto lr) : RAdam(std::move(params), RAdamOptions{.lr = double(lr)}) {}

 private:
  void update(Parameter& p) override;
};

struct AdamaxOptions {
  double lr = 2e-3;
  std::pair<double, double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0.0;
};
/// Adam that divides by the largest recent gradient (Kingma and Ba 2014). State: exp_avg, exp_inf.
class Adamax final : public detail::AdamVariant {
 public:
  explicit Adamax(Params params, AdamaxOptions options = {});
  Adamax(Params params, Rate auto lr)
      : Adamax(std::move(params), AdamaxOptions{.lr = double(lr)}) {}

 private:
  void update(Parameter& p) override;
};

}  // namespace tapegrad::optim
