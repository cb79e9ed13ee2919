// Losses of class scores: cross_entropy and nll_loss of ops/loss.h.
#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/extremes.h"
#include "ops/index.h"
#include "ops/internal/loss_reduction.h"
#include "ops/internal/operands.h"
#include "ops/internal/read_again.h"
#include "ops/loss.h"
#include "ops/option_checks.h"
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

}  // namespace kernels

using namespace detail;

namespace {

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
    Variable q, ignored, share;
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
      // The share of a row is infinite if all rows are ignored.
      if (scale) share = where(all(ignored), 0, Variable(scale));
      ignored = unsqueeze(ignored, dim);
    }
    Variable g = reduction == Reduction::kNone ? unsqueeze(dy, dim) : dy;
    if (scale) g = (g * share).to(x.dtype());
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
  detail::require_share("cross_entropy", "label_smoothing", smoothing);
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

void detail::catalog_class_loss(Catalog& catalog) {
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
}

Variable cross_entropy(const Variable& x, const Variable& target, Reduction reduction,
                       Where where) {
  return cross_entropy(x, target, {.reduction = reduction}, where);
}
Variable nll_loss(const Variable& x, const Variable& target, Reduction reduction, Where where) {
  return nll_loss(x, target, {.reduction = reduction}, where);
}

}  // namespace tapegrad
