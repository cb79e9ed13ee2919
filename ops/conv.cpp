#include "ops/conv.h"

#include <algorithm>
#include <atomic>

#include "core/base/internal/shape_mismatch.h"
#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/internal/conv_gradients.h"
#include "ops/internal/extent.h"
#include "ops/internal/limits.h"
#include "ops/internal/operands.h"
#include "ops/internal/unbatched.h"
#include "ops/internal/window.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

using detail::conv_flops;

constinit decltype(conv2d) conv2d{
    "conv2d", [](const Tensor&, const Tensor& weight, const Tensor&, const Conv2dOptions&,
                 const Epilogue&, Tensor& y) { return conv_flops(y, weight); }};
constinit decltype(conv2d_backward) conv2d_backward{
    "conv2d_backward",
    [](const Tensor& dy, const Epilogue&, const Tensor&, const Tensor& weight, const Conv2dOptions&,
       Tensor& dx, Tensor& dw,
       Tensor&) { return (dx ? conv_flops(dy, weight) : 0) + (dw ? conv_flops(dy, dw) : 0); },
    {.overwrites_first = true}};
constinit decltype(unfold) unfold{"unfold"};
constinit decltype(fold) fold{"fold"};

}  // namespace kernels

using namespace detail;

namespace {

constinit std::atomic<ConvAlgorithm> algorithm_now{ConvAlgorithm::kAuto};
constinit std::atomic<ConvLayout> layout_now{ConvLayout::kBlocked};

/// conv2d, for ops/internal/conv_gradients.h.
struct Images {
  using Options = Conv2dOptions;
  static constexpr std::string_view kInputName = "conv2d_backward_input";
  static constexpr std::string_view kWeightName = "conv2d_backward_weight";

  static Variable conv(const Variable& x, const Variable& weight, const Options& options) {
    return conv2d(x, weight, {}, options);
  }
  static void gradients(const Tensor& dy, const Tensor& x, const Tensor& weight,
                        const Options& options, Tensor& dx, Tensor& dw) {
    Tensor none;
    kernels::conv2d_backward(dy, {}, x, weight, options, dx, dw, none);
  }
};

struct Conv2d {
  static constexpr std::string_view kName = "conv2d";
  static constexpr size_t kRequired = 2;  // the bias is optional
  Conv2dOptions options;
  Activation behind = Activation::kNone;
  SavedInput<0, /*for*/ 1> x{};
  SavedInput<1, /*for*/ 0> weight{};
  SavedResult y{};  // of a ReLU behind
  Shape x_shape{}, weight_shape{};
  auto saved() { return std::tie(x, weight, y); }
  std::string_view name() const { return y ? "conv2d_relu" : kName; }

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    const Size2d size = check(kName, x, weight, bias);
    if (behind != Activation::kNone) require_float(kName, x);
    x_shape = x.shape(), weight_shape = weight.shape();
    Tensor y = x.empty_like({x_shape[0], weight_shape[0], size.height, size.width});
    kernels::conv2d(x.contiguous(), weight.contiguous(), bias ? bias.contiguous() : bias, options,
                    {behind}, y);
    return y;
  }
  bool take_epilogue(Activation activation, const Tensor& result) {
    if (activation != Activation::kRelu || y) return false;
    y.keep(result);
    return true;
  }

  std::array<Variable, 3> backward(const Variable& dy, Needs needs) const {
    const Variable dz = y ? relu_gradient(dy, y()) : dy;
    std::array<Variable, 3> dx;
    if (needs[0]) dx[0] = conv_backward_input<Images>(dz, weight(), options, x_shape);
    if (needs[1]) dx[1] = conv_backward_weight<Images>(dz, x(), options, weight_shape);
    if (needs[2]) dx[2] = sum(dz, {0, 2, 3});
    return dx;
  }
  /// Computes all gradients by one kernel, which converts the layout of dy once.
  std::array<Tensor, 3> kernel_backward(const Tensor& dy, Needs needs) const {
    const Tensor gradient = (y ? to_overwrite(dy) : dy).contiguous();
    Epilogue relu;
    if (y) relu = {Activation::kRelu, y.value()};
    Tensor dx, dw, db, from_x, from_weight;
    if (needs[0]) {
      from_weight = weight.value().contiguous();
      dx = gradient.empty_like(x_shape);
    }
    if (needs[1]) {
      from_x = x.value().contiguous();
      dw = gradient.empty_like(weight_shape);
    }
    if (needs[2]) db = gradient.empty_like({weight_shape[0]});
    kernels::conv2d_backward(gradient, relu, from_x, from_weight, options, dx, dw, db);
    return {std::move(dx), std::move(dw), std::move(db)};
  }

 private:
  Size2d check(std::string_view op, const Tensor& x, const Tensor& weight,
               const Tensor& bias) const {
    require_images(op, x.shape());
    const Shape& image = x.shape();
    const Shape& w = weight.shape();
    if (w.rank() != 4) fail<ShapeError>(op, ": weight [out, in / groups, kh, kw] wanted: ", w);
    check_conv_operands(op, x, weight, bias, options.groups);
    return count_windows(op, image,
                         {Size2d(w[2], w[3]), options.stride, options.padding, options.dilation});
  }
};

Size2d count_patches(std::string_view op, const Shape& image, const UnfoldOptions& o) {
  return count_windows(op, image, {o.kernel_size, o.stride, o.padding, o.dilation});
}

struct Unfold {
  static constexpr std::string_view kName = "unfold";
  UnfoldOptions options;
  Shape shape{};  // shape of x

  Tensor forward(const Tensor& x) {
    require_images(kName, x.shape());
    shape = x.shape();
    const Size2d patches = count_patches(kName, shape, options);
    const Size2d kernel = options.kernel_size;
    // uses numel() to detect overflow
    const Shape to{shape[0], numel({shape[1], kernel.height, kernel.width}),
                   numel({patches.height, patches.width})};
    if (!is_float(x.dtype())) return views_of_windows(x, to);
    Tensor y = x.empty_like(to);
    kernels::unfold(x.contiguous(), options, y);
    return y;
  }
  Variable backward(const Variable& dy) const { return fold(dy, {shape[2], shape[3]}, options); }

 private:
  /// Copies windows of any dtype, for which there are no kernels.
  Tensor views_of_windows(const Tensor& x, const Shape& to) const {
    const auto& [named, kernel, dilation, padding, stride] = options;
    Variable y = pad(Variable(x), {padding.width, padding.width, padding.height, padding.height});
    y = y.unfold(2, dilation.height * (kernel.height - 1) + 1, stride.height)
            .unfold(3, dilation.width * (kernel.width - 1) + 1, stride.width);
    y = slice(slice(y, 4, 0, y.size(4), dilation.height), 5, 0, y.size(5), dilation.width);
    return reshape(permute(y, {0, 1, 4, 5, 2, 3}), to).value();
  }
};

struct Fold {
  static constexpr std::string_view kName = "fold";
  Size2d output_size;
  UnfoldOptions options;

  Tensor forward(const Tensor& columns) {
    const Shape& from = columns.shape();
    if (from.rank() != 3)
      fail<ShapeError>(kName, ": [batch, channels * kernel, patches] wanted: ", from);
    require_from(kName, "output_size", output_size, 0);
    const Size2d patches = count_patches(kName, {output_size.height, output_size.width}, options);
    const int64_t kernel = options.kernel_size.height * options.kernel_size.width;
    if (from[1] % kernel != 0 || from[2] != numel({patches.height, patches.width}))
      fail<ShapeError>(kName, ": columns ", from, " are not ", patches.height, " x ", patches.width,
                       " patches of a multiple of ", kernel, " elements");
    Tensor y =
        columns.empty_like({from[0], from[1] / kernel, output_size.height, output_size.width});
    kernels::fold(columns.contiguous(), options, y);
    return y;
  }
  Variable backward(const Variable& dy) const { return unfold(dy, options); }
};

/// Operands of a convolution of integers, in float64.
struct WideOperands {
  Variable x, weight, bias;
};
/// Throws ArgumentError if a sum of that many products could be rounded.
WideOperands widened(std::string_view op, int64_t terms, const Variable& x, const Variable& weight,
                     const Variable& bias) {
  const double most = largest_magnitude(x) * largest_magnitude(weight) * double(terms);
  require_exact(op, most + (bias.defined() ? largest_magnitude(bias) : 0), x.dtype());
  return {x.to(f64), weight.to(f64), bias.defined() ? bias.to(f64) : bias};
}
Variable narrowed(const Variable& y, DType dtype) { return y.to(i64).to(dtype); }

Conv2dOptions conv_options(const Arguments& a) {
  return {.stride = size2d(a, "stride"),
          .padding = size2d(a, "padding"),
          .dilation = size2d(a, "dilation"),
          .groups = a.integer("groups")};
}
UnfoldOptions unfold_options(const Arguments& a) {
  return {.kernel_size = size2d(a, "kernel_size"),
          .dilation = size2d(a, "dilation"),
          .padding = size2d(a, "padding"),
          .stride = size2d(a, "stride")};
}

}  // namespace

Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias,
                Conv2dOptions options, Epilogue epilogue, Where where) {
  const ErrorLine line(where);
  if (is_unbatched(x, 2)) [[unlikely]]
    return as_batch(x, where, [&](const Variable& batch) {
      return conv2d(batch, weight, bias, options, epilogue);
    });
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision([](const auto&... a) { return conv2d(a...); }, where, x, weight, bias,
                            options, epilogue);
  const Activation activation = epilogue.activation;
  if (is_wide_integer(x.dtype()) && weight.dtype() == x.dtype() && weight.rank() == 4 && !epilogue)
      [[unlikely]] {
    const int64_t terms = weight.numel() / std::max<int64_t>(weight.size(0), 1);
    const WideOperands wide = widened("conv2d", terms, x, weight, bias);
    return narrowed(conv2d(wide.x, wide.weight, wide.bias, options), x.dtype());
  }
  if (activation == Activation::kGelu)  // the gradient of a GELU needs its operand
    return gelu(apply(Conv2d{options}, where, x, weight, bias), Gelu::kTanh, where);
  Variable y = apply(Conv2d{options, activation}, where, x, weight, bias);
  if (epilogue && y.grad_fn() != nullptr) y.grad_fn()->absorb(activation, y.value());
  return y;
}
Variable conv2d_relu(const Variable& x, const Variable& weight, const Variable& bias,
                     Conv2dOptions options, Where where) {
  return conv2d(x, weight, bias, options, {Activation::kRelu}, where);
}

Variable conv_transpose2d(const Variable& x, const Variable& weight, const Variable& bias,
                          ConvTransposeOptions<Size2d> options, Where where) {
  if (is_unbatched(x, 2)) [[unlikely]]
    return as_batch(x, where, [&](const Variable& batch) {
      return conv_transpose2d(batch, weight, bias, options);
    });
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision([](const auto&... a) { return conv_transpose2d(a...); }, where, x,
                            weight, bias, options);
  const CallLine line(where);
  constexpr std::string_view kName = "conv_transpose2d";
  const auto& [named, stride, padding, extra, groups, dilation] = options;
  require_images(kName, x.shape());
  const Shape &from = x.shape(), &w = weight.shape();
  if (w.rank() != 4) fail<ShapeError>(kName, ": weight [in, out / groups, kh, kw] wanted: ", w);
  require_count(kName, "groups", groups);
  if (from[1] != w[0] || w[0] % groups != 0)
    fail<ShapeError>(kName, ": channels do not fit: input ", from, ", weight ", w, ", groups ",
                     groups, draw_mismatch({{"input", from, 1}, {"weight", w, 0}}));
  const int64_t channels = w[1] * groups;
  if (bias.defined() && bias.shape() != Shape{channels})
    fail<ShapeError>(kName, ": bias ", bias.shape(), " does not fit weight ", w);
  check_same_device(kName, x.value(), weight.value(), bias.value_or_empty());
  check_same_dtype(kName, x.value(), weight.value(), bias.value_or_empty());
  const Size2d kernel{w[2], w[3]};
  check_windows(kName, {kernel, stride, padding, dilation});
  const auto shape = [&](Size2d padding, Size2d extra) {
    return Shape{
        from[0], channels,
        transposed_size(
            kName, from[2],
            {kernel.height, stride.height, padding.height, extra.height, dilation.height}),
        transposed_size(kName, from[3],
                        {kernel.width, stride.width, padding.width, extra.width, dilation.width})};
  };
  if (is_integer(x.dtype())) [[unlikely]] {
    const WideOperands wide = widened(kName, w[0] / groups * w[2] * w[3], x, weight, bias);
    return narrowed(conv_transpose2d(wide.x, wide.weight, wide.bias, options), x.dtype());
  }
  const Conv2dOptions forward{{}, stride, padding, dilation, groups};
  Variable y;
  if (const Shape to = shape(padding, extra);
      extra.height < stride.height && extra.width < stride.width) {
    y = conv_backward_input<Images>(x, weight, forward, to, where);
  } else {  // the convolution of y has more windows than x has pixels: crop y from the whole
    const Conv2dOptions whole{{}, stride, 0, dilation, groups};
    y = pad(conv_backward_input<Images>(x, weight, whole, shape(0, 0), where),
            {-padding.width, extra.width - padding.width, -padding.height,
             extra.height - padding.height});
  }
  return bias.defined() ? y + reshape(bias, {1, channels, 1, 1}) : y;
}

void set_conv_algorithm(ConvAlgorithm algorithm) { algorithm_now = algorithm; }
ConvAlgorithm conv_algorithm() { return algorithm_now; }
void set_conv_layout(ConvLayout layout) { layout_now = layout; }
ConvLayout conv_layout() { return layout_now; }

Variable unfold(const Variable& x, UnfoldOptions options, Where where) {
  const ErrorLine line(where);
  return apply(Unfold{options}, where, x);
}
Variable fold(const Variable& columns, Size2d output_size, UnfoldOptions options, Where where) {
  const ErrorLine line(where);
  const DType dtype = columns.dtype();
  if (!is_float(dtype)) [[unlikely]] {  // sums of bool are their logical or
    const double terms = double(options.kernel_size.height) * double(options.kernel_size.width);
    require_exact(Fold::kName, largest_magnitude(columns) * terms, dtype);
    const Variable sums = fold(columns.to(f64), output_size, options, where);
    return dtype == boolean ? sums != 0 : sums.to(i64).to(dtype);
  }
  return apply(Fold{output_size, options}, where, columns);
}

void catalog_conv(Catalog& catalog) {
  catalog.add(
      "conv2d(input, weight, bias?, stride: ints = 1, padding: ints = 0, dilation: ints = 1, "
      "groups: int = 1)",
      "y[n,o,i,j] = bias[o] + sum weight[o,c,u,v] input[n, c, i stride + u dilation - padding, "
      "...]",
      [](const Arguments& a) { return conv2d(a[0], a[1], a[2], conv_options(a)); });
  catalog.add(
      "conv2d_relu(input, weight, bias?, stride: ints = 1, padding: ints = 0, dilation: ints = 1, "
      "groups: int = 1)",
      "max(conv2d(...), 0)",
      [](const Arguments& a) { return conv2d_relu(a[0], a[1], a[2], conv_options(a)); });
  catalog.add(
      "conv_transpose2d(input, weight, bias?, stride: ints = 1, padding: ints = 0, "
      "output_padding: ints = 0, groups: int = 1, dilation: ints = 1)",
      "y[n,o, i stride + u dilation - padding, ...] += weight[c,o,u,v] input[n,c,i,j]",
      [](const Arguments& a) {
        return conv_transpose2d(a[0], a[1], a[2],
                                {.stride = size2d(a, "stride"),
                                 .padding = size2d(a, "padding"),
                                 .output_padding = size2d(a, "output_padding"),
                                 .groups = a.integer("groups"),
                                 .dilation = size2d(a, "dilation")});
      });
  catalog.add(
      "unfold(input, kernel_size: ints, dilation: ints = 1, padding: ints = 0, stride: ints = 1)",
      "patches as columns", [](const Arguments& a) { return unfold(a[0], unfold_options(a)); });
  catalog.add(
      "fold(input, output_size: ints, kernel_size: ints, dilation: ints = 1, padding: ints = 0, "
      "stride: ints = 1)",
      "the sum of overlapping patches",
      [](const Arguments& a) { return fold(a[0], size2d(a, "output_size"), unfold_options(a)); });
}

}  // namespace tapegrad
