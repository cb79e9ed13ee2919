#include "ops/linear.h"

#include "core/base/internal/clash.h"
#include "core/tape/internal/autocast_operand.h"
#include "core/tape/op.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/internal/extent.h"
#include "ops/internal/matrix_views.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit Kernel<void(const Tensor&, const Tensor&, const Tensor&, bool, Tensor&)> linear{
    "linear", [](const Tensor&, const Tensor& weight, const Tensor&, bool, Tensor& y) {
      return 2 * y.numel() * weight.shape()[1];
    }};
using LinearBoth = Kernel<void(const Tensor&, const Tensor&, const Tensor&, Tensor&, Tensor&)>;
static int64_t flops_of_both(const Tensor&, const Tensor& weight, const Tensor&, Tensor& y,
                             Tensor&) {
  return 2 * y.numel() * weight.shape()[1];
}
constinit LinearBoth linear_gelu{"linear_gelu", flops_of_both};
constinit LinearBoth linear_relu_masked{"linear_relu", flops_of_both};
using LinearBackward = Kernel<void(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                                   Tensor&, Tensor&, Tensor&)>;
static int64_t flops_of_backward(const Tensor& dy, const Tensor&, const Tensor&, const Tensor&,
                                 Tensor& dx, Tensor& dw, Tensor&) {
  return 2 * dx.numel() * dy.shape()[1] + 2 * dw.numel() * dy.shape()[0];
}
constinit LinearBackward linear_backward{"linear_backward", flops_of_backward};
constinit LinearBackward gelu_linear_backward{"gelu_linear_backward", flops_of_backward};
constinit LinearBackward relu_linear_backward{"relu_linear_backward", flops_of_backward};

}  // namespace kernels

using namespace detail;

namespace {

struct Linear {
  static constexpr std::string_view kName = "linear";
  static constexpr size_t kRequired = 2;  // the bias is optional
  SavedInput<0, /*for*/ 1> x{};
  SavedInput<1, /*for*/ 0> weight{};
  Shape shape{};  // shape of x
  auto saved() { return std::tie(x, weight); }

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    check(kName, x, weight, bias);
    return run(x, weight, bias, /*relu=*/false);
  }
  std::array<Variable, 3> backward(const Variable& dy, Needs needs) const {
    return compose(dy, x, needs);
  }
  std::array<Tensor, 3> kernel_backward(const Tensor& dy, Needs needs) const {
    return compute(dy, x, needs);
  }

 protected:
  Tensor run(const Tensor& x, const Tensor& weight, const Tensor& bias, bool relu) {
    shape = x.shape();
    const Tensor rows = as_matrix(x);
    Tensor y = x.empty_like({rows.shape()[0], weight.shape()[0]});
    kernels::linear(rows, weight, bias, relu, y);
    return x.rank() == 2 ? y : of_input(y);
  }
  /// Reshapes [rows, out] to the shape of the result.
  Tensor of_input(const Tensor& y) const {
    Shape to = shape;
    to[to.rank() - 1] = y.shape()[1];
    return y.with_layout({to, contiguous_strides(to), 0});
  }

  // dx = dy W, dW = dy^T x, db = the column sums of dy.
  template <typename Saved>
  std::array<Variable, 3> compose(const Variable& dy, const Saved& x, Needs needs) const {
    std::array<Variable, 3> dx;
    if (needs[0]) dx[0] = matmul(dy, weight());
    if (needs[1]) dx[1] = matmul(t(as_matrix(dy)), as_matrix(x()));
    if (needs[2]) dx[2] = sum_to(dy, {dy.size(-1)});
    return dx;
  }
  /// By one kernel, which goes by one more tensor.
  std::array<Tensor, 3> compute(
      const Tensor& dy, const SavedValue& x, Needs needs, const Tensor& other = {},
      const kernels::LinearBackward& kernel = kernels::linear_backward) const {
    const Tensor rows = as_matrix(dy);
    Tensor from_x, from_weight, dx, dw, db;
    if (needs[0]) {
      from_weight = weight.value();
      dx = rows.empty_like({rows.shape()[0], from_weight.shape()[1]});
    }
    if (x && (needs[1] || other)) from_x = as_matrix(x.value());
    if (needs[1]) dw = rows.empty_like({rows.shape()[1], from_x.shape()[1]});
    if (needs[2]) db = rows.empty_like({rows.shape()[1]});
    kernel(rows, other, from_x, from_weight, dx, dw, db);
    if (dx) dx = dx.with_layout({shape, contiguous_strides(shape), 0});
    return {std::move(dx), std::move(dw), std::move(db)};
  }

  static void check(std::string_view op, const Tensor& x, const Tensor& weight,
                    const Tensor& bias) {
    if (x.rank() < 1 || weight.rank() != 2)
      fail<ShapeError>(op, ": input [..., in] and weight [out, in] wanted: ", x.shape(), " and ",
                       weight.shape());
    if (x.shape()[x.rank() - 1] != weight.shape()[1])
      fail<ShapeError>(
          op, ": inner sizes differ: input ", x.shape(), ", weight ", weight.shape(),
          draw_clash({{"input", x.shape(), x.rank() - 1}, {"weight", weight.shape(), 1}}));
    if (bias && bias.shape() != Shape{weight.shape()[0]})
      fail<ShapeError>(op, ": bias ", bias.shape(), " does not fit weight ", weight.shape(),
                       draw_clash({{"weight", weight.shape(), 0}, {"bias", bias.shape(), 0}}));
    check_same_device(op, x, weight, bias);
    check_same_dtype(op, x, weight, bias);
  }
};

/// max(linear, 0), without the passes of a separate ReLU.
struct LinearRelu : Linear {
  static constexpr std::string_view kName = "linear_relu";
  SavedOutput<> y{};
  auto saved() { return std::tie(x, weight, y); }

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    check(kName, x, weight, bias);
    return run(x, weight, bias, /*relu=*/true);
  }
  std::array<Variable, 3> backward(const Variable& dy, Needs needs) const {
    return compose(relu_gradient(dy, y()), x, needs);
  }
  std::array<Tensor, 3> kernel_backward(const Tensor& dy, Needs needs) const {
    return compute(to_overwrite(dy), x, needs, as_matrix(y.value()));
  }
};

/// linear_gelu if no gradient will be requested.
struct OnlyGelu : Linear {
  static constexpr std::string_view kName = "linear_gelu";
  static constexpr bool kDifferentiable = false;

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    require_float(kName, x);
    check(kName, x, weight, bias);
    shape = x.shape();
    const Tensor rows = as_matrix(x);
    Tensor y = x.empty_like({rows.shape()[0], weight.shape()[0]}), none;
    kernels::linear_gelu(rows, weight, bias, y, none);
    return of_input(y);
  }
};

template <Activation kActivation>
Variable activate(const Variable& x) {
  return kActivation == Activation::kRelu ? relu(x) : gelu(x, Gelu::kTanh);
}
template <Activation kActivation>
Variable gradient_of(const Variable& dy, const Variable& x) {
  return kActivation == Activation::kRelu ? relu_gradient(dy, x) : gelu_tanh_gradient(dy, x);
}

/// linear with a preceding activation, a following activation, or both. Inputs are x, weight, bias
/// and, for a preceding activation f, h = f(x) and the mask of a ReLU; h and the mask receive no
/// gradient, because x receives all of it. For a following activation g, the outputs are g(z) with
/// z = linear, z, and the mask of a ReLU; the gradients of g(z) and z are summed. For a ReLU, z is
/// g(z), because the rule cannot tell them apart.
template <Activation kFront, Activation kBehind>
struct LinearJoined : Linear {
  static constexpr std::string_view kName = kBehind == Activation::kRelu   ? "linear_relu"
                                            : kBehind == Activation::kGelu ? "linear_gelu"
                                                                           : "linear";
  SavedInput<0, /*for*/ 0> before{};  // x, for the preceding activation
  std::conditional_t<kFront == Activation::kRelu, SavedInput<3, 0, 1>, SavedInput<3, 1>> h{};
  SavedInput<4, /*for*/ 0> mask{};
  SavedOutput<1> z{};
  auto saved() {
    if constexpr (kFront == Activation::kNone)
      return std::tie(weight, x, z);
    else if constexpr (kBehind == Activation::kNone)
      return std::tie(weight, before, h, mask);
    else
      return std::tie(weight, before, h, mask, z);
  }

  std::vector<Tensor> forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                              const Tensor& h, const Tensor&) {
    require_float(kName, x);
    check(kName, x, weight, bias);
    const Tensor& from = kFront == Activation::kNone ? x : h;
    if constexpr (kBehind == Activation::kNone) return {run(from, weight, bias, /*relu=*/false)};
    shape = x.shape();
    const Tensor rows = as_matrix(from);
    Tensor y = x.empty_like({rows.shape()[0], weight.shape()[0]}), made;
    if constexpr (kBehind == Activation::kGelu) {
      Tensor z = y.empty_like();
      kernels::linear_gelu(rows, weight, bias, y, z);
      return {of_input(y), of_input(z)};
    }
    kernels::linear_relu_masked(rows, weight, bias, y, made);
    y = of_input(y);
    return made ? std::vector{y, y, made} : std::vector{y, y};
  }

  std::vector<Variable> backward(std::span<const Variable> dy, Needs needs) const {
    Variable dz = dy[0];
    if constexpr (kBehind != Activation::kNone) {
      if (dz.defined()) dz = gradient_of<kBehind>(dz, z());
      if (dy[1].defined()) dz = dz.defined() ? dz + dy[1] : dy[1];
    }
    const auto [dx, dw, db] = to_inputs(dz, needs);
    return {dx, dw, db, {}, {}};
  }

 private:
  std::array<Variable, 3> to_inputs(const Variable& dz, Needs needs) const {
    const auto wrap = [](const std::array<Tensor, 3>& dx) {
      return std::array{as_gradient(Tensor(dx[0])), as_gradient(Tensor(dx[1])),
                        as_gradient(Tensor(dx[2]))};
    };
    if constexpr (kFront == Activation::kNone) {
      return is_recording() ? compose(dz, x, needs) : wrap(compute(dz.value(), x, needs));
    } else if (!is_recording()) {
      constexpr bool kRelu = kFront == Activation::kRelu;
      const Tensor none;
      const Tensor other = !needs[0] ? none : kRelu ? mask.value() : as_matrix(before.value());
      return wrap(compute(dz.value(), h, needs, other,
                          kRelu ? kernels::relu_linear_backward : kernels::gelu_linear_backward));
    }
    auto dx = compose(
        dz, [&] { return activate<kFront>(before()); }, needs);
    if (needs[0]) dx[0] = gradient_of<kFront>(dx[0], before());
    return dx;
  }
};

template <Activation kFront, Activation kBehind>
Activated join(const Activated& from, const Variable& weight, const Variable& bias, Where where) {
  const LinearJoined<kFront, kBehind> op;
  const auto results = kFront == Activation::kNone
                           ? apply(op, where, from.y, weight, bias, Variable(), Variable())
                           : apply(op, where, from.x, weight, bias, from.y, from.mask);
  if (results.size() == 3) return {results[0], results[1], results[2]};
  if (kBehind == Activation::kGelu) return {results[0], results[1]};
  return {results[0]};
}
template <Activation kFront>
Activated join(const Activated& from, const Variable& weight, const Variable& bias,
               Activation behind, Where where) {
  if (behind == Activation::kRelu)
    return join<kFront, Activation::kRelu>(from, weight, bias, where);
  if (behind == Activation::kGelu)
    return join<kFront, Activation::kGelu>(from, weight, bias, where);
  if constexpr (kFront == Activation::kNone)
    return {linear(from.y, weight, bias, where)};
  else
    return join<kFront, Activation::kNone>(from, weight, bias, where);
}

}  // namespace

Variable linear(const Variable& x, const Variable& weight, const Variable& bias, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision(linear, where, x, weight, bias);
  return apply(Linear{}, where, x, weight, bias);
}

Variable linear_relu(const Variable& x, const Variable& weight, const Variable& bias, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision(linear_relu, where, x, weight, bias);
  return apply(LinearRelu{}, where, x, weight, bias);
}

Variable linear_gelu(const Variable& x, const Variable& weight, const Variable& bias, Where where) {
  return linear_joined({x}, weight, bias, Activation::kGelu, where).y;
}

Activated linear_joined(const Activated& from, const Variable& weight, const Variable& bias,
                        Activation behind, Where where) {
  const auto& [y, x, mask] = from;
  if (is_autocast_enabled()) [[unlikely]] {
    const Activated operand{low(y, where), x.defined() ? low(x, where) : x, mask};
    const Variable w = low(weight, where), b = low(bias, where);
    const AutocastOff off;
    return linear_joined(operand, w, b, behind, where);
  }
  const bool records =
      is_recording() && (y.requires_grad() || weight.requires_grad() || bias.requires_grad());
  if (behind == Activation::kRelu &&
      !(records && kernels::linear_relu_masked.has(y.device().type, y.dtype())))
    return {linear_relu(y, weight, bias, where)};
  if (behind == Activation::kGelu && !records) return {apply(OnlyGelu{}, where, y, weight, bias)};
  if (!records || !x.defined()) return join<Activation::kNone>(from, weight, bias, behind, where);
  return mask.defined() ? join<Activation::kRelu>(from, weight, bias, behind, where)
                        : join<Activation::kGelu>(from, weight, bias, behind, where);
}

void kernels::linear_gelu_by_parts(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                   Tensor& y, Tensor& z) {
  Tensor& sums = z ? z : y;
  linear(x, weight, bias, /*relu=*/false, sums);
  gelu_tanh(sums, y);
}

void kernels::linear_backward_by_products(const Tensor& dy, const Tensor& y, const Tensor& x,
                                          const Tensor& weight, Tensor& dx, Tensor& dw,
                                          Tensor& db) {
  Tensor dz = dy;
  if (y) relu_backward(dy, y, dz);
  if (dx) matmul(dz, weight, dx);
  if (dw) matmul(transposed(dz), x, dw);
  if (!db) return;
  Tensor row = db.with_layout({{1, db.shape()[0]}, {db.shape()[0], 1}, 0});
  sum(dz, 1.0, row);
}

void kernels::gelu_linear_backward_by_parts(const Tensor& dy, const Tensor& z, const Tensor& x,
                                            const Tensor& weight, Tensor& dx, Tensor& dw,
                                            Tensor& db) {
  linear_backward(dy, Tensor(), x, weight, dx, dw, db);
  if (dx) gelu_tanh_backward(dx, z, dx);
}

void catalog_linear(Catalog& catalog) {
  catalog.add("linear(input, weight, bias?)", "input @ weight^T + bias",
              [](const Arguments& a) { return linear(a[0], a[1], a[2]); });
  catalog.add("linear_relu(input, weight, bias?)", "max(input @ weight^T + bias, 0)",
              [](const Arguments& a) { return linear_relu(a[0], a[1], a[2]); });
  catalog.add("linear_gelu(input, weight, bias?)",
              "gelu(input @ weight^T + bias), by its tanh formula",
              [](const Arguments& a) { return linear_gelu(a[0], a[1], a[2]); });
}

}  // namespace tapegrad
