#include "ops/norm_composed.h"

#include "core/base/error.h"
#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/internal/extent.h"
#include "ops/internal/kernels/group_norm.h"
#include "ops/internal/limits.h"
#include "ops/internal/operands.h"
#include "ops/norm.h"
#include "ops/option_checks.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {

namespace kernels {
constinit decltype(group_norm) group_norm{"group_norm"};
constinit decltype(group_norm_backward) group_norm_backward{"group_norm_backward"};
}  // namespace kernels

using namespace detail;

namespace {

void check_parameter(std::string_view op, const Variable& x, const Variable& parameter,
                     const Shape& shape) {
  if (!parameter.defined()) return;
  if (parameter.shape() != shape)
    fail<ShapeError>(op, ": weight or bias of shape ", parameter.shape(), " for ", shape);
  check_same_device(op, x.value(), parameter.value());
  check_same_dtype(op, x.value(), parameter.value());
}

/// Reshapes a parameter of the channels (dimension 1 of x) to broadcast with x.
Variable per_channel(const Variable& parameter, const Variable& x) {
  Shape along = Dims::filled(x.rank(), 1);
  along[1] = x.shape()[1];
  return reshape(parameter, along);
}

/// group_norm by a kernel that reads each group while it is in the cache.
struct GroupNorm {
  static constexpr std::string_view kName = "group_norm";
  static constexpr size_t kRequired = 1;  // weight and bias are optional
  int64_t groups;
  double eps;
  Tensor mean{}, invstd{};
  SavedInput<0, 0, 1> x{};
  SavedInput<1, 0> weight{};
  auto saved() { return std::tie(x, weight); }

  static Tensor flat(const Tensor& x) {  // [n, channels, size]
    const Tensor dense = x.contiguous();
    const Shape shape{x.shape()[0], x.shape()[1], x.numel() / (x.shape()[0] * x.shape()[1])};
    return dense.with_layout(contiguous_layout(shape, dense.layout().offset));
  }
  static Tensor dense(const Tensor& x) { return x ? x.contiguous() : x; }

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    mean = Tensor::empty({x.shape()[0] * groups}, wide_dtype(x.dtype()), x.device());
    invstd = mean.empty_like(mean.shape());
    Tensor y = x.empty_like(x.shape()), to = flat(y);
    kernels::group_norm(flat(x), dense(weight), dense(bias), eps, to, mean, invstd);
    return y;
  }
  // With x_hat = (x - mean) * invstd and g = dy * weight, by examples and groups:
  // dx = invstd * (g - mean(g) - x_hat * mean(g * x_hat)).
  std::array<Variable, 3> backward(const Variable& dy, Needs needs) const {
    const DType dtype = dy.dtype();
    const int64_t n = dy.size(0), channels = dy.size(1);
    const Shape shape{n, groups, channels / groups, dy.numel() / (n * channels)};
    const Variable d = reshape(dy.to(wide_dtype(dtype)), shape);
    const auto per_channel = [&](const Variable& each) {
      return reshape(sum(each, {0, 3}), {channels}).to(dtype);
    };
    std::array<Variable, 3> dx;
    if (needs[2]) dx[2] = per_channel(d);
    if (!needs[0] && !needs[1]) return dx;
    const Dims dims{2, 3};
    const Variable in = reshape(x().to(wide_dtype(dtype)), shape);
    const Variable centred = in - tapegrad::mean(in, dims, true);
    const Variable scale = rsqrt(tapegrad::mean(square(centred), dims, true) + eps);
    const Variable x_hat = centred * scale;
    if (needs[1]) dx[1] = per_channel(d * x_hat);
    if (!needs[0]) return dx;
    const Variable g =
        weight ? d * reshape(weight().to(wide_dtype(dtype)), {1, groups, channels / groups, 1}) : d;
    const Variable y =
        scale * (g - tapegrad::mean(g, dims, true) - x_hat * tapegrad::mean(g * x_hat, dims, true));
    dx[0] = reshape(y, dy.shape()).to(dtype);
    return dx;
  }
  std::array<Tensor, 3> kernel_backward(const Tensor& dy, Needs needs) const {
    const Tensor d = flat(dy), in = needs[0] || needs[1] ? flat(x.value()) : d;
    Tensor dx, to, dweight, dbias;
    if (needs[0]) {
      dx = dy.empty_like(dy.shape());
      to = flat(dx);
    }
    if (needs[1]) dweight = dy.empty_like({dy.shape()[1]});
    if (needs[2]) dbias = dy.empty_like({dy.shape()[1]});
    kernels::group_norm_backward(in, d, mean, invstd, weight ? dense(weight.value()) : Tensor(), to,
                                 dweight, dbias);
    return {std::move(dx), std::move(dweight), std::move(dbias)};
  }
};

}  // namespace

Variable group_norm(const Variable& x, int64_t num_groups, const Variable& weight,
                    const Variable& bias, double eps, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return group_norm(a...); }, where, x, num_groups,
                      weight, bias, eps);
  const CallLine line(where);
  constexpr std::string_view kName = "group_norm";
  require_float(kName, x.value());
  require_not_negative(kName, "eps", eps);
  if (x.rank() < 2) fail<ShapeError>(kName, ": channels are dimension 1, shape is ", x.shape());
  const int64_t channels = x.shape()[1];
  if (num_groups < 1 || channels % num_groups != 0)
    fail<ArgumentError>(kName, ": ", num_groups, " groups do not divide ", channels, " channels");
  check_parameter(kName, x, weight, {channels});
  check_parameter(kName, x, bias, {channels});
  if (x.numel() > 0 && kernels::group_norm.has(x.device().type, x.dtype()))
    return apply(GroupNorm{num_groups, eps}, where, x, weight, bias);
  int64_t size = channels / num_groups;
  for (int i = 2; i < x.rank(); ++i) size *= x.shape()[i];
  const DType dtype = x.dtype();
  const Variable rows = reshape(x.to(wide_dtype(dtype)), {x.shape()[0] * num_groups, size});
  Variable y = reshape(layer_norm(rows, {size}, {}, {}, eps), x.shape());
  if (weight.defined()) y = y * per_channel(weight.to(wide_dtype(dtype)), x);
  if (bias.defined()) y = y + per_channel(bias.to(wide_dtype(dtype)), x);
  return y.to(dtype);
}

Variable instance_norm(const Variable& x, const Variable& running_mean, const Variable& running_var,
                       const Variable& weight, const Variable& bias, InstanceNormOptions options,
                       Where where) {
  const CallLine line(where);
  constexpr std::string_view kName = "instance_norm";
  require_float(kName, x.value());
  require_not_negative(kName, "eps", options.eps);
  if (x.rank() < 2) fail<ShapeError>(kName, ": channels are dimension 1, shape is ", x.shape());
  const int64_t batch = x.shape()[0], channels = x.shape()[1];
  for (const Variable* each : {&running_mean, &running_var, &weight, &bias})
    if (each->defined() && each->shape() != Shape{channels})
      fail<ShapeError>(kName, ": statistics or parameters of shape ", each->shape(), " for the ",
                       channels, " channels of ", x.shape());
  if (options.use_input_stats && x.numel() > 0 && x.numel() == batch * channels)
    fail<ArgumentError>(kName, ": more than one value per channel wanted: ", x.shape());
  if (batch == 0) return x * 1;
  // Every channel of every example becomes a channel of a single example.
  const auto repeated = [&](const Variable& each) {
    return each.defined() ? repeat(each, {batch}) : each;
  };
  Shape shape = x.shape();
  shape[0] = 1, shape[1] = batch * channels;
  const Variable mean = repeated(running_mean), var = repeated(running_var);
  const Variable y = batch_norm(
      reshape(x, shape), mean, var, repeated(weight), repeated(bias),
      {.training = options.use_input_stats, .momentum = options.momentum, .eps = options.eps});
  if (options.use_input_stats && running_mean.defined() && !is_recomputing()) {
    const NoGrad off;
    const auto update = [&](Variable running, const Variable& moved) {
      copy_(running, tapegrad::mean(reshape(moved, {batch, channels}), {0}));
    };
    update(running_mean, mean);
    update(running_var, var);
  }
  return reshape(y, x.shape());
}

Variable rms_norm(const Variable& x, const Shape& normalized_shape, const Variable& weight,
                  std::optional<double> eps, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return rms_norm(a...); }, where, x, normalized_shape,
                      weight, eps);
  const CallLine line(where);
  constexpr std::string_view kName = "rms_norm";
  require_float(kName, x.value());
  if (eps) require_not_negative(kName, "eps", *eps);
  const int count = normalized_shape.rank(), first = x.rank() - count;
  bool fits = count > 0 && first >= 0;
  for (int i = 0; fits && i < count; ++i) fits = x.shape()[first + i] == normalized_shape[i];
  if (!fits)
    fail<ShapeError>(kName, ": the last sizes of ", x.shape(), " are not ", normalized_shape);
  check_parameter(kName, x, weight, normalized_shape);
  const DType dtype = x.dtype();
  if (!eps) eps = dtype == f64 ? 0x1p-52 : dtype == f32 ? 0x1p-23 : dtype == f16 ? 0x1p-10 : 0x1p-7;
  Dims dims;
  for (int i = 0; i < count; ++i) dims.push_back(first + i);
  const Variable v = x.to(wide_dtype(dtype));
  Variable y = v * rsqrt(mean(square(v), dims, /*keepdim=*/true) + *eps);
  if (weight.defined()) y = y * weight.to(wide_dtype(dtype));
  return y.to(dtype);
}

Variable local_response_norm(const Variable& x, int64_t size, LocalResponseNormOptions options,
                             Where where) {
  const CallLine line(where);
  constexpr std::string_view kName = "local_response_norm";
  require_float(kName, x.value());
  if (x.rank() < 3) fail<ShapeError>(kName, ": [n, channels, ...] wanted: ", x.shape());
  require_count(kName, "size", size);
  const DType dtype = x.dtype();
  const Variable v = x.to(wide_dtype(dtype));
  std::vector<int64_t> amounts(2 * size_t(x.rank() - 1));
  amounts[amounts.size() - 2] = size / 2, amounts[amounts.size() - 1] = (size - 1) / 2;
  const Variable around = mean(pad(square(v), amounts).unfold(1, size, 1), {-1});
  return (v / pow(around * options.alpha + options.k, options.beta)).to(dtype);
}

void catalog_norm_composed(Catalog& catalog) {
  catalog.add("group_norm(input, weight?, bias?, num_groups: int, eps: float = 1e-5)",
              "(x - mean) / sqrt(var + eps) * weight + bias, by groups of channels",
              [](const Arguments& a) {
                return group_norm(a[0], a.integer("num_groups"), a[1], a[2], a.real("eps"));
              });
  catalog.add(
      "instance_norm(input, running_mean?, running_var?, weight?, bias?, "
      "use_input_stats: bool = true, momentum: float = 0.1, eps: float = 1e-5)",
      "(x - mean) / sqrt(var + eps) * weight + bias per example and channel",
      [](const Arguments& a) {
        return instance_norm(a[0], a[1], a[2], a[3], a[4],
                             {.use_input_stats = a.flag("use_input_stats"),
                              .momentum = a.real("momentum"),
                              .eps = a.real("eps")});
      });
  catalog.add("rms_norm(input, weight?, normalized_shape: ints, eps: float = none)",
              "x / sqrt(mean(x^2) + eps) * weight over the last dimensions",
              [](const Arguments& a) {
                return rms_norm(a[0], a.dims("normalized_shape"), a[1],
                                a.has("eps") ? std::optional(a.real("eps")) : std::nullopt);
              });
  catalog.add(
      "local_response_norm(input, size: int, alpha: float = 1e-4, beta: float = 0.75, "
      "k: float = 1.0)",
      "x / (k + alpha * mean of x^2 over size channels)^beta", [](const Arguments& a) {
        return local_response_norm(
            a[0], a.integer("size"),
            {.alpha = a.real("alpha"), .beta = a.real("beta"), .k = a.real("k")});
      });
}

}  // namespace tapegrad
