#include "ops/norm.h"

#include <utility>

#include "core/dispatch/kernels.h"
#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/internal/extent.h"
#include "ops/internal/matrix_views.h"
#include "ops/internal/operands.h"
#include "ops/internal/running_statistics.h"
#include "ops/option_checks.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit decltype(channel_moments) channel_moments{"batch_norm"};
constinit decltype(batch_norm) batch_norm{"batch_norm"};
constinit decltype(batch_norm_training) batch_norm_training{"batch_norm"};
constinit decltype(batch_norm_backward) batch_norm_backward{"batch_norm_backward"};
constinit decltype(move_statistics) move_statistics{"batch_norm_running"};
constinit decltype(layer_norm) layer_norm{"layer_norm"};
constinit decltype(layer_norm_backward) layer_norm_backward{"layer_norm_backward"};

}  // namespace kernels

using namespace detail;

namespace {

/// Computes invstd = 1 / sqrt(var + eps).
void write_invstd(const Tensor& var, double eps, Tensor& invstd) {
  const Recording off(false);
  kernels::rsqrt((Variable(var) + eps).value(), invstd);
}

Tensor as(const Tensor& x, const Shape& shape) {
  const Tensor dense = x.contiguous();
  return dense.with_layout(contiguous_layout(shape, dense.layout().offset));
}

/// Returns the gradient by recorded ops, with x_hat = (x - mean) * invstd: dx = invstd * (g -
/// mean(g) - x_hat * mean(g * x_hat)), g = dy * weight.
Variable dx_by_formula(const Variable& x_hat, const Variable& invstd, const Variable& g,
                       const Dims& dims) {
  return invstd * (g - mean(g, dims, true) - x_hat * mean(g * x_hat, dims, true));
}

struct BatchNorm {
  static constexpr std::string_view kName = "batch_norm";
  static constexpr size_t kRequired = 1;  // weight and bias are optional
  Tensor mean, var;  // in training, memory for the batch statistics; var is not kept
  bool training;
  double eps;
  Tensor invstd{};
  DType parameters = f32;  // dtype of weight and bias
  SavedInput<0, 0, 1> x{};
  SavedInput<1, 0> weight{};
  auto saved() { return std::tie(x, weight); }

  static Shape channels(const Shape& shape) {  // [n, channels, size]
    int64_t size = 1;
    for (int i = 2; i < shape.rank(); ++i) size *= shape[i];
    return {shape[0], shape[1], size};
  }

  /// Views one number per channel as a tensor that broadcasts to [n, channels, size].
  static Tensor for_each_channel(const Tensor& x) {
    return x ? x.with_layout({{x.numel(), 1}, {1, 1}, x.layout().offset}) : x;
  }

  /// Returns a parameter in the dtype and layout of the kernels.
  Tensor wide(const Tensor& parameter) const {
    return parameter ? parameter.to(mean.dtype()).contiguous() : parameter;
  }

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    if (weight || bias) parameters = (weight ? weight : bias).dtype();
    Tensor y = x.empty_like(x.shape());
    Tensor to = as(y, channels(x.shape())), now = std::exchange(var, Tensor());
    const Tensor rows = as(x, channels(x.shape())), scale = wide(weight), shift = wide(bias);
    invstd = now.empty_like();
    if (training && kernels::batch_norm_training.has(x.device().type, x.dtype())) {
      kernels::batch_norm_training(rows, scale, shift, eps, to, mean, now, invstd);
      return y;
    }
    if (training) kernels::channel_moments(rows, mean, now);
    write_invstd(now, eps, invstd);
    kernels::batch_norm(rows, for_each_channel(mean), for_each_channel(invstd),
                        for_each_channel(scale), for_each_channel(shift), to);
    return y;
  }

  std::array<Variable, 3> backward(const Variable& dy16, Needs needs) const {
    const DType wide = mean.dtype();
    const Variable dy = dy16.to(wide);
    Dims dims{0};
    Shape per_channel{1, dy.size(1)};
    for (int i = 2; i < dy.rank(); ++i) {
      dims.push_back(i);
      per_channel.push_back(1);
    }
    std::array<Variable, 3> gradients;
    if (needs[2]) gradients[2] = sum(dy, dims).to(parameters);
    if (!needs[0] && !needs[1]) return gradients;
    const Variable x = this->x().to(wide);
    Variable middle = reshape(Variable(mean), per_channel);
    Variable invstd = reshape(Variable(this->invstd), per_channel);
    if (training) {
      middle = tapegrad::mean(x, dims, true);
      invstd = rsqrt(tapegrad::mean(square(x - middle), dims, true) + eps);
    }
    const Variable x_hat = (x - middle) * invstd;
    if (needs[1]) gradients[1] = sum(dy * x_hat, dims).to(parameters);
    if (!needs[0]) return gradients;
    const Variable g = weight ? dy * reshape(weight().to(wide), per_channel) : dy;
    gradients[0] = (training ? dx_by_formula(x_hat, invstd, g, dims) : g * invstd).to(dy16.dtype());
    return gradients;
  }

  std::array<Tensor, 3> kernel_backward(const Tensor& dy, Needs needs) const {
    const Shape shape = channels(dy.shape());
    const Tensor none, x = needs[0] || needs[1] ? as(this->x.value(), shape) : none;
    const Tensor weight = this->weight ? wide(this->weight.value()) : none;
    Tensor dx, rows, dweight, dbias;
    if (needs[0]) {
      dx = dy.empty_like(dy.shape());
      rows = as(dx, shape);
    }
    if (needs[1]) dweight = mean.empty_like(mean.shape());
    if (needs[2]) dbias = mean.empty_like(mean.shape());
    kernels::batch_norm_backward(x ? x : as(dy, shape), as(dy, shape), mean, invstd, weight,
                                 training, rows, dweight, dbias);
    if (dweight) dweight = dweight.to(parameters);
    if (dbias) dbias = dbias.to(parameters);
    return {std::move(dx), std::move(dweight), std::move(dbias)};
  }
};

struct LayerNorm {
  static constexpr std::string_view kName = "layer_norm";
  static constexpr size_t kRequired = 1;  // weight and bias are optional
  Shape normalized;
  double eps;
  Tensor mean{}, invstd{};
  SavedInput<0, 0, 1> x{};
  SavedInput<1, 0> weight{};
  auto saved() { return std::tie(x, weight); }

  Shape rows(const Shape& shape) const {  // [rows, n]
    int64_t count = 1;
    for (int i = 0; i < shape.rank() - normalized.rank(); ++i) count *= shape[i];
    return {count, numel(normalized)};
  }

  void check(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    require_float(kName, x);
    const int first = x.rank() - normalized.rank();
    bool fits = normalized.rank() > 0 && first >= 0;
    for (int i = 0; fits && i < normalized.rank(); ++i)
      fits = x.shape()[first + i] == normalized[i];
    if (!fits) fail<ShapeError>(kName, ": the last sizes of ", x.shape(), " are not ", normalized);
    for (const Tensor* parameter : {&weight, &bias})
      if (*parameter && parameter->shape() != normalized)
        fail<ShapeError>(kName, ": weight or bias of shape ", parameter->shape(), " for ",
                         normalized);
    check_same_device(kName, x, weight, bias);
    check_same_dtype(kName, x, weight, bias);
  }

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    check(x, weight, bias);
    const Shape shape = rows(x.shape());
    Tensor y = x.empty_like(x.shape());
    mean = Tensor::empty({shape[0]}, wide_dtype(x.dtype()), x.device());
    invstd = mean.empty_like(mean.shape());
    Tensor out = as(y, shape);
    kernels::layer_norm(as(x, shape), contiguous_or_empty(weight), contiguous_or_empty(bias), eps,
                        out, mean, invstd);
    return y;
  }

  std::array<Variable, 3> backward(const Variable& dy16, Needs needs) const {
    const DType dtype = dy16.dtype(), wide = wide_dtype(dtype);
    const Variable dy = dy16.to(wide);
    std::array<Variable, 3> gradients;
    if (needs[2]) gradients[2] = sum_to(dy, normalized).to(dtype);
    if (!needs[0] && !needs[1]) return gradients;
    Dims dims;
    for (int i = 0; i < normalized.rank(); ++i) dims.push_back(i - normalized.rank());
    const Variable x = this->x().to(wide);
    const Variable centred = x - tapegrad::mean(x, dims, true);
    const Variable invstd = rsqrt(tapegrad::mean(square(centred), dims, true) + eps);
    const Variable x_hat = centred * invstd;
    if (needs[1]) gradients[1] = sum_to(dy * x_hat, normalized).to(dtype);
    if (needs[0])
      gradients[0] =
          dx_by_formula(x_hat, invstd, weight ? dy * weight().to(wide) : dy, dims).to(dtype);
    return gradients;
  }

  std::array<Tensor, 3> kernel_backward(const Tensor& dy, Needs needs) const {
    const Shape shape = rows(dy.shape());
    const Tensor none, weight = this->weight ? this->weight.value().contiguous() : none;
    const Tensor dys = as(dy, shape);
    const Tensor x = needs[0] || needs[1] ? as(this->x.value(), shape) : dys;
    Tensor dx, out, dweight, dbias;
    if (needs[0]) {
      dx = dy.empty_like(dy.shape());
      out = as(dx, shape);
    }
    if (needs[1]) dweight = dy.empty_like(normalized);
    if (needs[2]) dbias = dy.empty_like(normalized);
    kernels::layer_norm_backward(x, dys, mean, invstd, weight, out, dweight, dbias);
    return {std::move(dx), std::move(dweight), std::move(dbias)};
  }
};

void check_batch_norm(const Variable& x, const Variable& running_mean, const Variable& running_var,
                      const Variable& weight, const Variable& bias, bool training) {
  constexpr std::string_view kName = BatchNorm::kName;
  require_float(kName, x.value());
  if (x.rank() < 2) fail<ShapeError>(kName, ": channels are dimension 1, shape is ", x.shape());
  const int64_t channels = x.shape()[1];
  for (const Variable* each : {&running_mean, &running_var, &weight, &bias})
    if (each->defined() && each->shape() != Shape{channels})
      fail<ShapeError>(kName, ": statistics or parameters of shape ", each->shape(), " for the ",
                       channels, " channels of ", x.shape());
  check_same_device(kName, x.value(), running_mean.value_or_empty(), running_var.value_or_empty(),
                    weight.value_or_empty(), bias.value_or_empty());
  for (const Variable* each : {&weight, &bias})
    if (each->defined() && each->dtype() != x.dtype() && each->dtype() != wide_dtype(x.dtype()))
      fail<DTypeError>(kName, ": weight or bias of ", name(each->dtype()), " for ",
                       name(x.dtype()));
  if (weight.defined() && bias.defined()) check_same_dtype(kName, weight.value(), bias.value());
  for (const Variable* each : {&running_mean, &running_var})
    if (each->requires_grad())
      fail<ArgumentError>(kName,
                          ": running statistics that require a gradient; the order is "
                          "batch_norm(x, running_mean, running_var, weight, bias)");
  if (running_mean.defined() != running_var.defined() || (!training && !running_mean.defined()))
    fail<ArgumentError>(kName, ": running_mean and running_var are wanted",
                        training ? " together" : " when not training");
  if (running_mean.defined()) {
    require_float(kName, running_mean.value());
    check_same_dtype(kName, running_mean.value(), running_var.value());
  }
  if (training && channels > 0 && x.numel() == channels)
    fail<ArgumentError>(kName, ": training wants more than one value per channel: ", x.shape());
}

/// Moves the running statistics, in place, towards those of a batch of `count` values per channel.
void move_statistics(const Variable& running_mean, const Variable& running_var, const Tensor& mean,
                     const Tensor& var, double momentum, double count) {
  Tensor moved[2];
  const Variable* const running[] = {&running_mean, &running_var};
  for (int i = 0; i < 2; ++i) {
    check_writable(BatchNorm::kName, *running[i], false);
    moved[i] = running[i]->writable().contiguous();
  }
  kernels::move_statistics(moved[0], moved[1], mean, var, momentum, count / (count - 1));
  for (int i = 0; i < 2; ++i) {
    Tensor& to = running[i]->writable();
    if (!to.is_contiguous()) kernels::copy(moved[i], to);
    to.storage().bump_version();
  }
}

}  // namespace

Variable batch_norm(const Variable& x, const Variable& running_mean, const Variable& running_var,
                    const Variable& weight, const Variable& bias, BatchNormOptions options,
                    Where where) {
  if (is_autocast_enabled()) [[unlikely]] {  // a sixteen-bit model may have a float32 input
    const AutocastOff off;
    const DType wide = wide_dtype(x.dtype());
    return batch_norm(x, running_mean, running_var,
                      weight.defined() ? weight.to(wide, where) : weight,
                      bias.defined() ? bias.to(wide, where) : bias, options, where);
  }
  const ErrorLine line(where);
  check_batch_norm(x, running_mean, running_var, weight, bias, options.training);
  detail::require_not_negative("batch_norm", "eps", options.eps);
  detail::require_number("batch_norm", "momentum", options.momentum);
  const DType wide = wide_dtype(x.dtype());
  Tensor mean, var;
  if (options.training) {
    mean = Tensor::empty({x.shape()[1]}, wide, x.device());
    var = mean.empty_like(mean.shape());
  } else {
    mean = running_mean.value().to(wide).clone();  // copied, so that later updates do not reach
                                                   // backward
    var = running_var.value().to(wide);
  }
  const Variable y =
      apply(BatchNorm{mean, var, options.training, options.eps}, where, x, weight, bias);
  if (options.training && running_mean.defined() && x.numel() > 0 && !is_recomputing()) {
    const Recording off(false);
    move_statistics(running_mean, running_var, mean, var, options.momentum,
                    double(x.numel() / x.shape()[1]));
  }
  return y;
}

Variable layer_norm(const Variable& x, const Shape& normalized_shape, const Variable& weight,
                    const Variable& bias, double eps, Where where) {
  const ErrorLine line(where);
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return layer_norm(a...); }, where, x, normalized_shape,
                      weight, bias, eps);
  detail::require_not_negative("layer_norm", "eps", eps);
  return apply(LayerNorm{normalized_shape, eps}, where, x, weight, bias);
}

void catalog_norm(Catalog& catalog) {
  catalog.add(
      "batch_norm(input, running_mean?, running_var?, weight?, bias?, training: bool = false, "
      "momentum: float = 0.1, eps: float = 1e-5)",
      "(x - mean) / sqrt(var + eps) * weight + bias per channel", [](const Arguments& a) {
        return batch_norm(
            a[0], a[1], a[2], a[3], a[4],
            {.training = a.flag("training"), .momentum = a.real("momentum"), .eps = a.real("eps")});
      });
  catalog.add("layer_norm(input, weight?, bias?, normalized_shape: ints, eps: float = 1e-5)",
              "(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions",
              [](const Arguments& a) {
                return layer_norm(a[0], a.dims("normalized_shape"), a[1], a[2], a.real("eps"));
              });
}

}  // namespace tapegrad
