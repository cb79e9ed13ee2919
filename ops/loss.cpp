#include "ops/loss.h"

#include <limits>

#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/internal/kernels/pointwise.h"
#include "ops/internal/loss_reduction.h"
#include "ops/internal/operands.h"
#include "ops/option_checks.h"
#include "ops/unary.h"

namespace tapegrad {
namespace kernels {

constinit decltype(binary_cross_entropy) binary_cross_entropy{"binary_cross_entropy"};
constinit decltype(check_unit) check_unit{"check_unit"};
constinit Binary mse{"mse_loss"};
constinit decltype(mse_backward) mse_backward{"mse_loss_backward"};
constinit Binary bce_with_logits{"binary_cross_entropy_with_logits"};
constinit decltype(bce_with_logits_backward) bce_with_logits_backward{
    "binary_cross_entropy_with_logits_backward"};
constinit decltype(huber) huber{"huber"};
constinit decltype(huber_backward) huber_backward{"huber_backward"};

}  // namespace kernels

using namespace detail;

namespace {

using Loss = Variable (*)(const Variable&, const Variable&, Reduction, Where);

struct Squared {
  static constexpr std::string_view kName = "mse_loss";

  void write(const Tensor& x, const Tensor& target, Tensor& y) const { kernels::mse(x, target, y); }
  void write_gradient(const Tensor& dy, const Tensor& x, const Tensor& target, Tensor& dx) const {
    kernels::mse_backward(dy, x, target, dx);
  }
  Variable slope(const Variable& d) const { return d * 2; }
};

struct Huber {
  static constexpr std::string_view kName = "huber";
  double bound, scale;

  void write(const Tensor& x, const Tensor& target, Tensor& y) const {
    kernels::huber(x, target, bound, scale, y);
  }
  void write_gradient(const Tensor& dy, const Tensor& x, const Tensor& target, Tensor& dx) const {
    kernels::huber_backward(dy, x, target, bound, scale, dx);
  }
  Variable slope(const Variable& d) const {
    return scale * tapegrad::where(abs(d) < bound, d, bound * sign(d));
  }
};

/// Element losses f(x - target). The rule computes the difference again, because storing it costs
/// as much time as computing the loss.
template <typename Loss>
struct DifferenceLoss {
  static constexpr std::string_view kName = Loss::kName;
  Loss loss;
  SavedInput<0> x{};
  SavedInput<1> target{};
  auto saved() { return std::tie(x, target); }

  Tensor forward(const Tensor& x, const Tensor& target) const {
    check_same_device(kName, x, target);
    Tensor y = x.empty_like(x.shape());
    loss.write(x, target, y);
    return y;
  }
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    const Variable gradient = dy * loss.slope(x() - target());
    if (needs[0]) dx[0] = gradient;
    if (needs[1]) dx[1] = -gradient;
    return dx;
  }
  std::array<Tensor, 2> kernel_backward(const Tensor& dy, Needs needs) const {
    std::array<Tensor, 2> dx;
    Tensor gradient = result_over(dy);
    loss.write_gradient(dy, x.value(), target.value(), gradient);
    if (needs[1]) {
      dx[1] = needs[0] ? gradient.empty_like(gradient.shape()) : gradient;
      kernels::neg(gradient, dx[1]);
    }
    if (needs[0]) dx[0] = std::move(gradient);
    return dx;
  }
};

template <typename Loss>
Variable of_difference(Loss loss, const Variable& x, const Variable& target, Where where) {
  const Pair both(Loss::kName, {x, where}, {target, where});
  return apply(DifferenceLoss<Loss>{loss}, where, both.a, both.b);
}

}  // namespace

Variable mse_loss(const Variable& x, const Variable& target, Reduction reduction, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32(static_cast<Loss>(mse_loss), where, x, target, reduction);
  const ErrorLine line(where);
  check_floats("mse_loss", x);
  check_equal_shapes("mse_loss", x, target);
  return reduced(of_difference(Squared{}, x, target, where), reduction, where);
}

Variable l1_loss(const Variable& x, const Variable& target, Reduction reduction, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32(static_cast<Loss>(l1_loss), where, x, target, reduction);
  const ErrorLine line(where);
  check_equal_shapes("l1_loss", x, target);
  return reduced(abs(minus(x, target, where), where), reduction, where);
}

Variable smooth_l1_loss(const Variable& x, const Variable& target, double beta, Reduction reduction,
                        Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return smooth_l1_loss(a...); }, where, x, target, beta,
                      reduction);
  const ErrorLine line(where);
  check_floats("smooth_l1_loss", x);
  check_equal_shapes("smooth_l1_loss", x, target);
  detail::require_not_negative("smooth_l1_loss", "beta", beta);
  const double least =
      x.dtype() == f64 ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
  if (beta < least) return l1_loss(x, target, reduction, where);  // 1 / beta overflows
  return reduced(of_difference(Huber{beta, 1 / beta}, x, target, where), reduction, where);
}

Variable huber_loss(const Variable& x, const Variable& target, double delta, Reduction reduction,
                    Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return huber_loss(a...); }, where, x, target, delta,
                      reduction);
  const ErrorLine line(where);
  check_floats("huber_loss", x);
  check_equal_shapes("huber_loss", x, target);
  detail::require_positive("huber_loss", "delta", delta);
  return reduced(of_difference(Huber{delta, 1.0}, x, target, where), reduction, where);
}

namespace {

/// The element loss of a probability. Its derivative with respect to x divides by at least 1e-12,
/// as in PyTorch.
struct BinaryCrossEntropy {
  static constexpr std::string_view kName = "binary_cross_entropy";
  SavedInput<0> x{};
  SavedInput<1, 0> target{};
  auto saved() { return std::tie(x, target); }

  Tensor forward(const Tensor& x, const Tensor& target) {
    check_same_device(kName, x, target);
    check_same_dtype(kName, x, target);
    kernels::check_unit(x, "binary_cross_entropy: input");
    kernels::check_unit(target, "binary_cross_entropy: target");
    Tensor y = x.empty_like(x.shape());
    kernels::binary_cross_entropy(x, target, y);
    return y;
  }

  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    const DType dtype = compute_dtype(dy.dtype());  // float16 has no 1e-12
    const Variable x = this->x().to(dtype), g = dy.to(dtype);
    std::array<Variable, 2> gradients;
    if (needs[0]) gradients[0] = g * (x - target().to(dtype)) / maximum((1 - x) * x, 1e-12);
    if (needs[1])
      gradients[1] = g * (clamp(log1p(-x), {.min = -100.0}) - clamp(log(x), {.min = -100.0}));
    for (Variable& gradient : gradients)
      if (gradient.defined()) gradient = gradient.to(dy.dtype());
    return gradients;
  }
};

/// The element loss of a logit. Differences of a sigmoid and the target would lose the digits of a
/// small loss or gradient.
struct BceWithLogits {
  static constexpr std::string_view kName = "binary_cross_entropy_with_logits";
  SavedInput<0> x{};
  SavedInput<1> target{};
  auto saved() { return std::tie(x, target); }

  Tensor forward(const Tensor& x, const Tensor& target) const {
    check_same_device(kName, x, target);
    Tensor y = x.empty_like(x.shape());
    kernels::bce_with_logits(x, target, y);
    return y;
  }
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    const DType dtype = compute_dtype(dy.dtype());
    const Variable x = this->x().to(dtype), t = target().to(dtype), g = dy.to(dtype);
    std::array<Variable, 2> gradients;
    if (needs[0]) gradients[0] = g * ((1 - t) * sigmoid(x) - t * sigmoid(-x));
    if (needs[1]) gradients[1] = -(g * x);
    for (Variable& gradient : gradients)
      if (gradient.defined()) gradient = gradient.to(dy.dtype());
    return gradients;
  }
  std::array<Tensor, 2> kernel_backward(const Tensor& dy, Needs needs) const {
    std::array<Tensor, 2> gradients;
    if (needs[1]) {
      gradients[1] = compute(kernels::mul, dy, x.value());
      kernels::neg(gradients[1], gradients[1]);
    }
    if (needs[0]) {
      gradients[0] = result_over(dy);
      kernels::bce_with_logits_backward(dy, x.value(), target.value(), gradients[0]);
    }
    return gradients;
  }
};

}  // namespace

Variable binary_cross_entropy(const Variable& x, const Variable& target, const Variable& weight,
                              Reduction reduction, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return binary_cross_entropy(a...); }, where, x, target,
                      weight, reduction);
  const ErrorLine line(where);
  check_floats("binary_cross_entropy", x);
  check_equal_shapes("binary_cross_entropy", x, target);
  Variable losses = apply(BinaryCrossEntropy{}, where, x, target);
  if (weight.defined()) losses = times(losses, weight, where);
  return reduced(losses, reduction, where);
}

Variable binary_cross_entropy_with_logits(const Variable& x, const Variable& target,
                                          BceWithLogitsOptions options, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return binary_cross_entropy_with_logits(a...); },
                      where, x, target, options);
  const ErrorLine line(where);
  check_floats("binary_cross_entropy_with_logits", x);
  check_equal_shapes("binary_cross_entropy_with_logits", x, target);
  Variable losses;
  if (options.pos_weight.defined()) {
    const Variable weights = times(options.pos_weight, target, where);
    const Variable positive = times(weights, logsigmoid(x, where), where);
    const Variable others = sub({1, where}, {target, where});
    losses = neg(times(others, logsigmoid(neg(x, where), where), where), where);
    losses = minus(losses, positive, where);
  } else {
    const Pair both(BceWithLogits::kName, {x, where}, {target, where});
    losses = apply(BceWithLogits{}, where, both.a, both.b);
  }
  if (options.weight.defined()) losses = times(losses, options.weight, where);
  return reduced(losses, options.reduction, where);
}

Variable kl_div(const Variable& x, const Variable& target, bool log_target, Reduction reduction,
                Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return kl_div(a...); }, where, x, target, log_target,
                      reduction);
  const ErrorLine line(where);
  check_floats("kl_div", x);
  check_equal_shapes("kl_div", x, target);
  if (log_target)
    return reduced(times(exp(target, where), minus(target, x, where), where), reduction, where);
  const Variable zero = eq({target, where}, {0, where});
  const Variable logs = log(tapegrad::where(zero, {1, where}, {target, where}), where);
  const Variable entropy = times(target, logs, where);
  return reduced(minus(entropy, times(target, x, where), where), reduction, where);
}

void catalog_loss(Catalog& catalog) {
  catalog.add("mse_loss(input, target, reduction: str = mean)", "(x - t)^2",
              [](const Arguments& a) { return mse_loss(a[0], a[1], reduction_of(a)); });
  catalog.add("l1_loss(input, target, reduction: str = mean)", "|x - t|",
              [](const Arguments& a) { return l1_loss(a[0], a[1], reduction_of(a)); });
  catalog.add("smooth_l1_loss(input, target, beta: float = 1.0, reduction: str = mean)",
              "d^2 / (2 beta) for d = |x - t| < beta, else d - beta / 2", [](const Arguments& a) {
                return smooth_l1_loss(a[0], a[1], a.real("beta"), reduction_of(a));
              });
  catalog.add(
      "huber_loss(input, target, delta: float = 1.0, reduction: str = mean)",
      "d^2 / 2 for d = |x - t| < delta, else delta (d - delta / 2)",
      [](const Arguments& a) { return huber_loss(a[0], a[1], a.real("delta"), reduction_of(a)); });
  catalog.add("binary_cross_entropy(input, target, weight?, reduction: str = mean)",
              "-(t log(x) + (1 - t) log(1 - x))", [](const Arguments& a) {
                return binary_cross_entropy(a[0], a[1], a[2], reduction_of(a));
              });
  catalog.add(
      "binary_cross_entropy_with_logits(input, target, weight?, pos_weight?, "
      "reduction: str = mean)",
      "binary_cross_entropy(sigmoid(x), t)", [](const Arguments& a) {
        return binary_cross_entropy_with_logits(
            a[0], a[1], {.weight = a[2], .reduction = reduction_of(a), .pos_weight = a[3]});
      });
  catalog.add(
      "kl_div(input, target, log_target: bool = false, reduction: str = mean)", "t (log(t) - x)",
      [](const Arguments& a) { return kl_div(a[0], a[1], a.flag("log_target"), reduction_of(a)); });
  catalog_class_loss(catalog);
}

Variable mse_loss(const Variable& x, const Variable& target, LossOptions options, Where where) {
  return mse_loss(x, target, options.reduction, where);
}
Variable l1_loss(const Variable& x, const Variable& target, LossOptions options, Where where) {
  return l1_loss(x, target, options.reduction, where);
}
Variable smooth_l1_loss(const Variable& x, const Variable& target, SmoothL1Options options,
                        Where where) {
  return smooth_l1_loss(x, target, options.beta, options.reduction, where);
}
Variable huber_loss(const Variable& x, const Variable& target, HuberOptions options, Where where) {
  return huber_loss(x, target, options.delta, options.reduction, where);
}
Variable smooth_l1_loss(const Variable& x, const Variable& target, Reduction reduction, double beta,
                        Where where) {
  return smooth_l1_loss(x, target, beta, reduction, where);
}
Variable huber_loss(const Variable& x, const Variable& target, Reduction reduction, double delta,
                    Where where) {
  return huber_loss(x, target, delta, reduction, where);
}
Variable binary_cross_entropy(const Variable& x, const Variable& target, Reduction reduction,
                              Where where) {
  return binary_cross_entropy(x, target, {}, reduction, where);
}
Variable binary_cross_entropy_with_logits(const Variable& x, const Variable& target,
                                          Reduction reduction, Where where) {
  return binary_cross_entropy_with_logits(x, target, {.reduction = reduction}, where);
}
Variable kl_div(const Variable& x, const Variable& target, const KlDivOptions& options,
                Where where) {
  return kl_div(x, target, std::string_view(options.reduction), options.log_target, where);
}
}  // namespace tapegrad
