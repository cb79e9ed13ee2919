// The optimizers. Names and defaults are PyTorch's; the formulas are in ops/update.h. A step is one
// fused kernel per parameter. The state of 16-bit parameters is float32.
#pragma once

#include <tuple>
#include <utility>

#include "optim/optimizer.h"

namespace tapegrad::optim {

namespace detail {
template <typename... T>
constexpr bool refuse_chain() {
  static_assert(
      tapegrad::detail::kNever<T...>,
      "optim::AdamWOptions(1e-3).weight_decay(0.1): type torch::optim::AdamWOptions(...), "
      "or optim::AdamW(params, {.lr = 1e-3, .weight_decay = 0.1})");
  return true;
}
}  // namespace detail

/// A number in an optimizer's options. Calling the member, as in libtorch, gives a compile error
/// with the spelling to use instead.
template <typename T>
struct Setting {
  constexpr Setting(T set) : value(set) {}
  constexpr operator T() const { return value; }
  constexpr Setting& operator*=(T factor) { return value *= factor, *this; }
  constexpr Setting& operator/=(T divisor) { return value /= divisor, *this; }
  template <typename... X>
  auto operator()(const X&...) const {
    static_assert(detail::refuse_chain<X...>());
  }

  T value;
};
struct Betas : std::pair<double, double> {
  constexpr Betas(double beta1, double beta2) : pair(beta1, beta2) {}
  constexpr Betas(std::pair<double, double> both) : pair(both) {}
  constexpr Betas(std::tuple<double, double> both)  // for libtorch's std::make_tuple(0.5, 0.999)
      : pair(std::get<0>(both), std::get<1>(both)) {}
  template <typename T = double>
  auto operator()(std::pair<T, T>) const {
    static_assert(detail::refuse_chain<T>());
  }
};

struct SGDOptions {
  Setting<double> lr = 1e-3;
  Setting<double> momentum = 0.0;
  Setting<double> dampening = 0.0;
  Setting<double> weight_decay = 0.0;
  Setting<bool> nesterov = false;  // requires momentum, and dampening 0
  Setting<bool> maximize = false;  // make steps that increase the loss
};
/// Stochastic gradient descent. State: momentum_buffer. Without momentum and weight decay, a
/// gradient kept as rows updates only these rows, because the other rows would not change.
class SGD final : public Optimizer {
 public:
  explicit SGD(Params params, SGDOptions options = {});
  SGD(Params params, Rate auto lr, double momentum = 0.0, double dampening = 0.0,
      double weight_decay = 0.0, bool nesterov = false)
      : SGD(std::move(params),
            SGDOptions{double(lr), momentum, dampening, weight_decay, nesterov}) {}
  SGD(Params params, double lr, SGDOptions options);

 private:
  SGDOptions options_of(const Group& group) const;
  void check_group(const Group& group) const override;
  std::vector<StateInfo> state_info(const Group& group) const override;
  void set_momentum(Group& group, double momentum) const override;
  void update(const Group&, const ParamUpdates& params, const StepGuard& guard) override;
  bool updates_rows(const Group&) const override;

  SGDOptions options_;
};

struct AdamOptions {
  Setting<double> lr = 1e-3;
  Betas betas = {0.9, 0.999};  // decay rates of the mean and of the mean square
  Setting<double> eps = 1e-8;
  Setting<double> weight_decay = 0.0;  // times the parameter is added to the gradient
  Setting<bool> amsgrad = false;
  Setting<bool> maximize = false;  // make steps that increase the loss
  bool fused = false;              // no effect: steps are always fused
};
/// State: exp_avg, exp_avg_sq; with amsgrad also max_exp_avg_sq.
class Adam : public Optimizer {
 public:
  explicit Adam(Params params, AdamOptions options = {});
  Adam(Params params, Rate auto lr, std::pair<double, double> betas = {0.9, 0.999},
       double eps = 1e-8, double weight_decay = 0.0)
      : Adam(std::move(params), AdamOptions{double(lr), betas, eps, weight_decay}) {}
  Adam(Params params, double lr, AdamOptions options);

 protected:
  Adam(std::string_view kind, Params params, AdamOptions options, bool decoupled);

  bool eps_of_sum_ = false;  // see AdamStep in ops/update.h

 private:
  AdamOptions options_of(const Group& group) const;
  void check_group(const Group& group) const override;
  std::vector<StateInfo> state_info(const Group& group) const override;
  void set_momentum(Group& group, double momentum) const override;
  void update(const Group&, const ParamUpdates& params, const StepGuard& guard) override;

  std::string_view kind_;
  AdamOptions options_;
  bool decoupled_;
};

struct AdamWOptions {
  Setting<double> lr = 1e-3;
  Betas betas = {0.9, 0.999};  // decay rates of the mean and of the mean square
  Setting<double> eps = 1e-8;
  Setting<double> weight_decay = 1e-2;  // times lr and the parameter, subtracted from the parameter
  Setting<bool> amsgrad = false;
  Setting<bool> maximize = false;  // make steps that increase the loss
  bool fused = false;              // no effect: steps are always fused
};
/// Adam with decoupled weight decay (Loshchilov and Hutter 2017).
class AdamW final : public Adam {
 public:
  explicit AdamW(Params params, AdamWOptions options = {});
  AdamW(Params params, Rate auto lr, std::pair<double, double> betas = {0.9, 0.999},
        double eps = 1e-8, double weight_decay = 1e-2)
      : AdamW(std::move(params), AdamWOptions{double(lr), betas, eps, weight_decay}) {}
  AdamW(Params params, double lr, AdamWOptions options);
};

struct SparseAdamOptions {
  double lr = 1e-3;
  std::pair<double, double> betas = {0.9, 0.999};  // decay rates of the mean and of the mean square
  double eps = 1e-8;
  bool maximize = false;  // make steps that increase the loss
};
/// Adam that updates only the rows, and their state, of a gradient kept as rows; the moments of
/// other rows do not decay. As in PyTorch, eps is added to the square root before its bias is
/// corrected, so steps of tiny gradients are smaller than Adam's. Parameters with dense gradients
/// are updated by the same formula.
class SparseAdam final : public Adam {
 public:
  explicit SparseAdam(Params params, SparseAdamOptions options = {});
  SparseAdam(Params params, Rate auto lr)
      : SparseAdam(std::move(params), SparseAdamOptions{.lr = double(lr)}) {}

 private:
  bool updates_rows(const Group& group) const override;
};

struct AdagradOptions {
  Setting<double> lr = 1e-2;
  Setting<double> lr_decay = 0.0;  // the learning rate at step t is lr / (1 + (t - 1) lr_decay)
  Setting<double> weight_decay = 0.0;
  Setting<double> initial_accumulator_value = 0.0;
  Setting<double> eps = 1e-10;
  Setting<bool> maximize = false;  // make steps that increase the loss
};
/// State: sum. Without weight decay, a gradient kept as rows updates only these rows, because the
/// other rows would not change.
class Adagrad final : public Optimizer {
 public:
  explicit Adagrad(Params params, AdagradOptions options = {});
  Adagrad(Params params, Rate auto lr)
      : Adagrad(std::move(params), AdagradOptions{.lr = double(lr)}) {}
  Adagrad(Params params, Rate auto lr, double lr_decay)
      : Adagrad(std::move(params), AdagradOptions{.lr = double(lr), .lr_decay = lr_decay}) {}

 private:
  AdagradOptions options_of(const Group& group) const;
  void check_group(const Group& group) const override;
  std::vector<StateInfo> state_info(const Group& group) const override;
  void update(const Group&, const ParamUpdates& params, const StepGuard& guard) override;
  bool updates_rows(const Group&) const override;

  AdagradOptions options_;
};

struct RMSpropOptions {
  Setting<double> lr = 1e-2;
  Setting<double> alpha = 0.99;
  Setting<double> eps = 1e-8;
  Setting<double> weight_decay = 0.0;
  Setting<double> momentum = 0.0;
  Setting<bool> centered = false;
  Setting<bool> maximize = false;  // make steps that increase the loss
};
/// State: square_avg; with centered also grad_avg; with momentum also momentum_buffer.
class RMSprop final : public Optimizer {
 public:
  explicit RMSprop(Params params, RMSpropOptions options = {});
  RMSprop(Params params, Rate auto lr, double alpha = 0.99)
      : RMSprop(std::move(params), RMSpropOptions{.lr = double(lr), .alpha = alpha}) {}
  RMSprop(Params params, double lr, RMSpropOptions options);

 private:
  RMSpropOptions options_of(const Group& group) const;
  void check_group(const Group& group) const override;
  std::vector<StateInfo> state_info(const Group& group) const override;
  void set_momentum(Group& group, double momentum) const override;
  void update(const Group&, const ParamUpdates& params, const StepGuard& guard) override;

  RMSpropOptions options_;
};

struct AdadeltaOptions {
  double lr = 1.0;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0.0;
  bool maximize = false;  // make steps that increase the loss

  /// Returns Keras's defaults, whose learning rate is a thousandth of PyTorch's: `Adadelta(model,
  /// AdadeltaOptions::keras())`.
  static AdadeltaOptions keras();
};
/// State: square_avg, acc_delta.
class Adadelta final : public Optimizer {
 public:
  explicit Adadelta(Params params, AdadeltaOptions options = {});
  Adadelta(Params params, Rate auto lr, double rho = 0.9)
      : Adadelta(std::move(params), AdadeltaOptions{.lr = double(lr), .rho = rho}) {}
  /// Makes the optimizer with Keras's defaults.
  static Adadelta keras(Params params);

 private:
  AdadeltaOptions options_of(const Group& group) const;
  void check_group(const Group& group) const override;
  std::vector<StateInfo> state_info(const Group& group) const override;
  void update(const Group&, const ParamUpdates& params, const StepGuard& guard) override;

  AdadeltaOptions options_;
};

struct RpropOptions {
  double lr = 1e-2;                                   // initial step of every element
  std::pair<double, double> etas = {0.5, 1.2};        // factors of an element's step
  std::pair<double, double> step_sizes = {1e-6, 50};  // bounds of the step
  bool maximize = false;                              // make steps that increase the loss
};
/// Resilient backpropagation (Riedmiller and Braun 1993), for gradients over all data: the sign of
/// an element's gradient gives the direction of the step, and changes of the sign adapt its size.
/// State: prev, step_size.
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
  double lambd = 1e-4;  // decay rate of the parameters and of the learning rate
  double alpha = 0.75;  // the rate of step t is lr / (1 + lambd lr (t - 1))^alpha
  double t0 = 1e6;      // step after which values are averaged
  double weight_decay = 0.0;
  bool maximize = false;  // make steps that increase the loss
};
/// Averaged gradient descent (Polyak and Juditsky 1992). State: ax, the average. PyTorch applies a
/// changed learning rate one step later, and rounds the rate of a step to float32.
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
