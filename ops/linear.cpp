#include "ops/linear.h"

#include "core/base/internal/shape_mismatch.h"
#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/internal/extent.h"
#include "ops/internal/is_recorded.h"
#include "ops/internal/matrix_views.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit decltype(linear) linear{
    "linear", [](const Tensor&, const Tensor& weight, const Tensor&, const Epilogue&, Tensor& y) {
      return 2 * y.numel() * weight.shape()[1];
    }};
constinit decltype(linear_backward) linear_backward{
    "linear_backward",
    [](const Tensor& dy, const Epilogue&, const Tensor&, const Tensor&, const Epilogue&, Tensor& dx,
       Tensor& dw,
       Tensor&) { return 2 * dx.numel() * dy.shape()[1] + 2 * dw.numel() * dy.shape()[0]; },
    {.overwrites_first = true}};

}  // namespace kernels

using namespace detail;

namespace {

struct Linear {
  static constexpr std::string_view kName = "linear";
  static constexpr size_t kRequired = 2;  // the bias is optional
  Activation behind = Activation::kNone;
  SavedInput<0, /*for*/ 1> x{};
  SavedInput<1, /*for*/ 0> weight{};
  SavedResult y{};  // of a ReLU behind
  Shape shape{};    // of x
  auto saved() { return std::tie(x, weight, y); }
  std::string_view name() const { return y ? "linear_relu" : kName; }

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    check(kName, x, weight, bias);
    return run(x, weight, bias, {behind});
  }
  bool take_epilogue(Activation activation, const Tensor& result) {
    if (activation != Activation::kRelu || y) return false;
    y.keep(result);
    return true;
  }

  // dx = dz W, dW = dz^T x, db = the sum of dz's rows.
  std::array<Variable, 3> backward(const Variable& dy, Needs needs) const {
    const Variable dz = y ? relu_gradient(dy, y()) : dy;
    std::array<Variable, 3> dx;
    if (needs[0]) dx[0] = matmul(dz, weight());
    if (needs[1]) dx[1] = matmul(t(as_matrix(dz)), as_matrix(x()));
    if (needs[2]) dx[2] = sum_to(dz, {dz.size(-1)});
    return dx;
  }
  KernelGradients<3> kernel_backward(const Tensor& dy, Needs needs) const {
    const Tensor rows = as_matrix(y ? to_overwrite(dy) : dy);
    Epilogue relu, front;
    if (y) relu = {Activation::kRelu, as_matrix(y.value())};
    KernelGradients<3> gradients;
    auto& [dx, dw, db] = static_cast<std::array<Tensor, 3>&>(gradients);
    Tensor from_x, from_weight;
    if (needs[0]) {
      from_weight = weight.value();
      dx = rows.empty_like({rows.shape()[0], from_weight.shape()[1]});
      if (const SavedValue* at = needs.front(front.activation)) front.at = as_matrix(at->value());
    }
    if (needs[1]) {
      from_x = as_matrix(x.value());
      dw = rows.empty_like({rows.shape()[1], from_x.shape()[1]});
    }
    if (needs[2]) db = rows.empty_like({rows.shape()[1]});
    kernels::linear_backward(rows, relu, from_x, from_weight, front, dx, dw, db);
    if (dx) dx = dx.with_layout(contiguous_layout(shape));
    gradients.is_past_front = bool(front);
    return gradients;
  }

 protected:
  Tensor run(const Tensor& x, const Tensor& weight, const Tensor& bias, const Epilogue& epilogue) {
    if (epilogue) require_float(kName, x);
    shape = x.shape();
    const Tensor rows = as_matrix(x);
    Tensor y = x.empty_like({rows.shape()[0], weight.shape()[0]});
    kernels::linear(rows, weight, bias, epilogue, y);
    return x.rank() == 2 ? y : of_input(y);
  }
  /// Reshapes [rows, out] to the shape of the result.
  Tensor of_input(const Tensor& y) const {
    Shape to = shape;
    to[to.rank() - 1] = y.shape()[1];
    return y.with_layout({to, contiguous_strides(to), 0});
  }

  static void check(std::string_view op, const Tensor& x, const Tensor& weight,
                    const Tensor& bias) {
    if (x.rank() < 1 || weight.rank() != 2)
      fail<ShapeError>(op, ": input [..., in] and weight [out, in] wanted: ", x.shape(), " and ",
                       weight.shape());
    if (x.shape()[x.rank() - 1] != weight.shape()[1])
      fail<ShapeError>(
          op, ": inner sizes differ: input ", x.shape(), ", weight ", weight.shape(),
          draw_mismatch({{"input", x.shape(), x.rank() - 1}, {"weight", weight.shape(), 1}}));
    if (bias && bias.shape() != Shape{weight.shape()[0]})
      fail<ShapeError>(op, ": bias ", bias.shape(), " does not fit weight ", weight.shape(),
                       draw_mismatch({{"weight", weight.shape(), 0}, {"bias", bias.shape(), 0}}));
    check_same_device(op, x, weight, bias);
    check_same_dtype(op, x, weight, bias);
  }
};

/// linear in front of a GELU, whose result the same kernel leaves in *gelu.
struct LinearBeforeGelu : Linear {
  Tensor* gelu;

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    check(kName, x, weight, bias);
    const Tensor z = x.empty_like({as_matrix(x).shape()[0], weight.shape()[0]});
    *gelu = run(x, weight, bias, {Activation::kGelu, z});
    return of_input(z);
  }
};

/// linear() with a weight [in].
[[gnu::cold]] Variable of_vector(const Variable& x, const Variable& weight, const Variable& bias,
                                 Epilogue epilogue, Where where) {
  const CallLine line(where);
  if (bias.defined() && bias.numel() != 1)
    fail<ShapeError>("linear: a weight ", weight.shape(), " takes a bias of one element, not ",
                     bias.shape());
  const Variable row = unsqueeze(weight, 0), one = bias.defined() ? reshape(bias, {1}) : bias;
  return squeeze(linear(x, row, one, epilogue, where), -1);
}

}  // namespace

Variable linear(const Variable& x, const Variable& weight, const Variable& bias, Epilogue epilogue,
                Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision([](const auto&... a) { return linear(a...); }, where, x, weight, bias,
                            epilogue);
  if (weight.defined() && weight.rank() == 1) [[unlikely]]
    return of_vector(x, weight, bias, epilogue, where);
  const Activation activation = epilogue.activation;
  if (activation == Activation::kGelu && is_recorded(x, weight, bias)) {
    Tensor y;
    const Variable z = apply(LinearBeforeGelu{{activation}, &y}, where, x, weight, bias);
    return gelu_tanh_known(z, std::move(y), where);
  }
  Variable y = apply(Linear{activation}, where, x, weight, bias);
  if (epilogue && y.grad_fn() != nullptr) y.grad_fn()->absorb(activation, y.value());
  return y;
}

Variable linear_relu(const Variable& x, const Variable& weight, const Variable& bias, Where where) {
  return linear(x, weight, bias, {Activation::kRelu}, where);
}
Variable linear_gelu(const Variable& x, const Variable& weight, const Variable& bias, Where where) {
  return linear(x, weight, bias, {Activation::kGelu}, where);
}

void kernels::linear_backward_by_products(const Tensor& dy, const Epilogue& behind, const Tensor& x,
                                          const Tensor& weight, const Epilogue& front, Tensor& dx,
                                          Tensor& dw, Tensor& db) {
  Tensor dz = dy;
  run_epilogue_backward(behind, dy, dz);
  if (dx) matmul(dz, weight, dx);
  if (dx) run_epilogue_backward(front, dx, dx);
  if (dw) matmul(transposed(dz), x, dw);
  if (!db) return;
  Tensor row = db.with_layout({{1, db.shape()[0]}, {db.shape()[0], 1}, 0});
  sum(dz, 1.0, row);
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
