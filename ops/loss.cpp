#include "ops/loss.h"

#include <limits>

#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/index.h"
#include "ops/internal/kernels/pointwise.h"
#include "ops/internal/loss_reduction.h"
#include "ops/internal/operands.h"
#include "ops/internal/read_again.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit decltype(check_classes) check_classes{"check_classes"};
constinit decltype(cross_entropy) cross_entropy{"cross_entropy"};
constinit decltype(cross_entropy_backward) cross_entropy_backward{"cross_entropy_backward"};
constinit decltype(cross_entropy_reduce) cross_entropy_reduce{"cross_entropy_reduce"};
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

// Operators that take the caller's location.
Variable minus(const Variable& a, const Variable& b, Where w) { return sub({a, w}, {b, w}); }
Variable times(const Variable& a, const Variable& b, Where w) { return mul({a, w}, {b, w}); }
Variable times(double a, const Variable& b, Where w) { return mul({a, w}, {b, w}); }

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
  check_floats("l1_loss", x);
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
  if (!(beta >= 0)) fail<ArgumentError>("smooth_l1_loss: beta is ", beta, ", not >= 0");
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
  if (!(delta > 0)) fail<ArgumentError>("huber_loss: delta is ", delta, ", not > 0");
  return reduced(of_difference(Huber{delta, 1.0}, x, target, where), reduction, where);
}

namespace {

/// Returns the dimension of the classes: 1, or 0 for a single example.
int class_dim(const Shape& shape) { return shape.rank() == 1 ? 0 : 1; }

Shape without_classes(const Shape& shape) {
  Shape rest;
  for (int i = 0; i < shape.rank(); ++i)
    if (i != class_dim(shape)) rest.push_back(shape[i]);
  return rest;
}

/// Checks the arguments common to class losses.
void check_class_loss(std::string_view op, const Variable& x, const Variable& weight) {
  check_floats(op, x);
  if (x.rank() == 0) fail<ShapeError>(op, ": the input has no class dimension");
  if (!weight.defined()) return;
  const int64_t classes = x.shape()[class_dim(x.shape())];
  if (weight.shape() != Shape{classes})
    fail<ShapeError>(op, ": weight is ", weight.shape(), " for ", classes, " classes");
  if (weight.requires_grad())
    fail<ArgumentError>(op, ": weight requires a gradient, but is taken as a constant");
  check_same_device(op, x.value(), weight.value());
}

/// Class ids as contiguous int64. Throws unless all are valid.
Tensor checked_classes(std::string_view op, const Variable& x, const Variable& target,
                       int64_t ignore_index) {
  const Shape expected = without_classes(x.shape());
  if (target.shape() != expected)
    fail<ShapeError>(op, ": class ids are ", target.shape(), " for an input of ", x.shape(),
                     ", not ", expected);
  if (!is_integer(target.dtype()))
    fail<DTypeError>(op, ": class ids are ", target.dtype(), ", not integers");
  check_same_device(op, x.value(), target.value());
  const Tensor ids = target.value().to(i64).contiguous();
  kernels::check_classes(ids, op, x.shape()[class_dim(x.shape())], ignore_index);
  return ids;
}

/// Returns a contiguous input as [examples, pixels, classes], with the strides of its own layout.
Tensor as_pixels(const Tensor& x) {
  const Shape& shape = x.shape();
  const int64_t examples = shape.rank() > 1 ? shape[0] : 1, classes = shape[class_dim(shape)];
  int64_t pixels = 1;
  for (int i = 2; i < shape.rank(); ++i) pixels *= shape[i];
  return x.with_layout(
      {{examples, pixels, classes}, {pixels * classes, 1, pixels}, x.layout().offset});
}

/// Cross entropy with class ids: log_softmax, selection and reduction in one op.
struct CrossEntropy {
  static constexpr std::string_view kName = "cross_entropy";
  ReadAgain checked;  // the class ids: int64, in range
  ReadAgain factors;  // the weights in the compute type of x, or empty
  CrossEntropySpec spec;
  Reduction reduction;
  SavedInput<0> x{};
  Tensor statistics{};  // per row: the maximum and the log of the sum
  Tensor scale{};       // of the mean: 1 / the sum of the targets' weights
  auto saved() { return std::tie(x); }

  const Tensor& target() const { return checked.value(kName); }
  const Tensor& weight() const { return factors.value(kName); }

  Tensor forward(const Tensor& x) {
    const Tensor &target = this->target(), &weight = this->weight();
    const DType wide = compute_dtype(x.dtype());
    Tensor losses = Tensor::empty(target.shape(), wide, x.device());
    statistics = Tensor::empty({2, target.numel()}, wide, x.device());
    kernels::cross_entropy(as_pixels(x.contiguous()), target, weight, spec, losses, statistics);
    if (reduction == Reduction::kNone) return losses.to(x.dtype());
    if (reduction == Reduction::kMean) scale = Tensor::empty({}, wide, x.device());
    Tensor y = x.empty_like({});
    kernels::cross_entropy_reduce(y, losses, target, weight, spec.ignore_index, scale);
    return y;
  }

  // With q the smoothed, weighted target distribution and Q its sum: dx = dy (Q softmax(x) - q).
  Tensor kernel_backward(const Tensor& dy) const {
    const Tensor x = this->x.value();
    const Tensor dx = x.empty_like(x.shape());
    Tensor pixels = as_pixels(dx);
    kernels::cross_entropy_backward(as_pixels(x.contiguous()), target(), weight(), spec, statistics,
                                    dy.contiguous(), scale, pixels);
    return dx;
  }
  Variable backward(const Variable& dy) const {
    const Variable x = this->x();
    const int dim = class_dim(x.shape());
    Variable q, ignored;
    {
      const NoGrad no_grad;
      const Variable ids(target());
      const int64_t classes = x.shape()[dim];
      ignored = ids == spec.ignore_index;
      Dims order;
      for (int i = 0; i < x.rank(); ++i)
        order.push_back(i < dim ? i : i == dim ? x.rank() - 1 : i - 1);
      q = permute(one_hot(masked_fill(ids, ignored, 0), classes).to(x.dtype()), order);
      q = q * (1 - spec.label_smoothing) + spec.label_smoothing / double(classes);
      if (factors) {
        Shape along = Dims::filled(x.rank(), 1);
        along[dim] = classes;
        q = q * reshape(Variable(weight().to(x.dtype())), along);
      }
      ignored = unsqueeze(ignored, dim);
    }
    Variable g = reduction == Reduction::kNone ? unsqueeze(dy, dim) : dy;
    if (scale) g = (g * Variable(scale)).to(x.dtype());
    const Variable dx = (softmax(x, dim) * sum(q, {dim}, /*keepdim=*/true) - q) * g;
    return where(ignored, 0, dx);
  }
};

/// Cross entropy with class probabilities.
Variable soft_cross_entropy(const Variable& x, const Variable& target,
                            const CrossEntropyOptions& options, Where where) {
  const ErrorLine line(where);
  if (target.rank() < x.rank())
    fail<ShapeError>("cross_entropy: a target of floats ", target.shape(), " for an input ",
                     x.shape(),
                     ": class ids are integers, target.to(i64); floats are probabilities of each "
                     "class, in the shape of the input");
  check_equal_shapes("cross_entropy", x, target);
  const int dim = class_dim(x.shape());
  const double classes = double(x.shape()[dim]), rest = options.label_smoothing;
  Variable q = target;
  if (rest > 0) q = add({times(1 - rest, target, where), where}, {rest / classes, where});
  if (options.weight.defined()) {
    Shape along = Dims::filled(x.rank(), 1);
    along[dim] = x.shape()[dim];
    q = times(q, reshape(options.weight, along, where), where);
  }
  const Variable losses =
      neg(sum(times(q, log_softmax(x, dim, where), where), {dim}, false, where), where);
  return reduced(losses, options.reduction, where);
}

}  // namespace

Variable cross_entropy(const Variable& x, const Variable& target, CrossEntropyOptions options,
                       Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return cross_entropy(a...); }, where, x, target,
                      options);
  const ErrorLine line(where);
  check_class_loss("cross_entropy", x, options.weight);
  const double smoothing = options.label_smoothing;
  if (!(smoothing >= 0 && smoothing <= 1))
    fail<ArgumentError>("cross_entropy: label_smoothing is ", smoothing, ", not in [0, 1]");
  if (is_float(target.dtype())) return soft_cross_entropy(x, target, options, where);
  Tensor weight;
  if (options.weight.defined())
    weight = options.weight.value().to(compute_dtype(x.dtype())).contiguous();
  return apply(
      CrossEntropy{.checked = checked_classes("cross_entropy", x, target, options.ignore_index),
                   .factors = weight,
                   .spec = {options.ignore_index, smoothing},
                   .reduction = options.reduction},
      where, x);
}

Variable nll_loss(const Variable& x, const Variable& target, NllLossOptions options, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return nll_loss(a...); }, where, x, target, options);
  const ErrorLine line(where);
  check_class_loss("nll_loss", x, options.weight);
  const Variable given(checked_classes("nll_loss", x, target, options.ignore_index));
  const int dim = class_dim(x.shape());
  const Variable ignored = eq({given, where}, {options.ignore_index, where});
  const Variable ids = masked_fill(given, ignored, 0, where);
  Variable losses =
      neg(squeeze(gather(x, dim, unsqueeze(ids, dim, where), where), dim, where), where);
  Variable weights;
  if (options.weight.defined()) {
    weights = index_select(options.weight.to(x.dtype()), 0, flatten(ids, 0, -1, where), where);
    weights = reshape(weights, ids.shape(), where);
    losses = times(losses, weights, where);
  }
  losses = tapegrad::where(ignored, {0, where}, {losses, where});
  if (options.reduction != Reduction::kMean) return reduced(losses, options.reduction, where);
  const Variable kept = logical_not(ignored, where).to(x.dtype(), where);
  // Sums of many sixteen-bit values may not fit in sixteen bits; their quotient does.
  const DType dtype = compute_dtype(x.dtype());
  const Variable all = (weights.defined() ? times(kept, weights, where) : kept).to(dtype, where);
  const Variable total = sum(losses.to(dtype, where), where);
  return div({total, where}, {sum(all, where), where}).to(x.dtype(), where);
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
  catalog.add(
      "cross_entropy(input, target, weight?, ignore_index: int = -100, "
      "label_smoothing: float = 0.0, reduction: str = mean)",
      "-log_softmax(x)[target]", [](const Arguments& a) {
        return cross_entropy(a[0], a[1],
                             {.weight = a[2],
                              .ignore_index = a.integer("ignore_index"),
                              .reduction = reduction_of(a),
                              .label_smoothing = a.real("label_smoothing")});
      });
  catalog.add("nll_loss(input, target, weight?, ignore_index: int = -100, reduction: str = mean)",
              "-x[target]", [](const Arguments& a) {
                return nll_loss(a[0], a[1],
                                {.weight = a[2],
                                 .ignore_index = a.integer("ignore_index"),
                                 .reduction = reduction_of(a)});
              });
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
Variable cross_entropy(const Variable& x, const Variable& target, Reduction reduction,
                       Where where) {
  return cross_entropy(x, target, {.reduction = reduction}, where);
}
Variable nll_loss(const Variable& x, const Variable& target, Reduction reduction, Where where) {
  return nll_loss(x, target, {.reduction = reduction}, where);
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
