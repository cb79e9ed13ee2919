#include "ops/activation.h"

#include <cmath>
#include <numbers>

#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/epilogue.h"
#include "ops/internal/kernels/pointwise.h"
#include "ops/internal/limits.h"
#include "ops/internal/operands.h"
#include "ops/unary.h"

namespace tapegrad {

namespace kernels {
constinit Unary sigmoid{"sigmoid"}, relu{"relu"}, gelu_erf{"gelu"}, gelu_tanh{"gelu"}, silu{"silu"},
    mish{"mish"}, hardsigmoid{"hardsigmoid"}, hardswish{"hardswish"}, log_sigmoid{"log_sigmoid"};
constinit Binary log_sigmoid_backward{"log_sigmoid_backward"};
constinit ActivationGradient sigmoid_backward{"sigmoid_backward"}, relu_backward{"relu_backward"};
constinit ActivationGradient gelu_erf_backward{"gelu_backward"},
    gelu_tanh_backward{"gelu_backward"}, silu_backward{"silu_backward"},
    mish_backward{"mish_backward"}, hardswish_backward{"hardswish_backward"};
constinit decltype(leaky_relu) leaky_relu{"leaky_relu"};
constinit decltype(elu) elu{"elu"};
constinit decltype(elu_backward) elu_backward{"elu_backward"};
constinit decltype(softplus) softplus{"softplus"};
constinit decltype(softplus_backward) softplus_backward{"softplus_backward"};
}  // namespace kernels

using namespace detail;

Variable relu_gradient(const Variable& dy, const Variable& y) {
  return piecewise(dy, y, {0.0, kInfinity, 0.0, 1.0, 1.0});
}

namespace {

struct Sigmoid : UnaryOp<kernels::sigmoid> {
  static constexpr std::string_view kName = "sigmoid";
  SavedOutput<> y{};
  auto saved() { return std::tie(y); }

  Variable backward(const Variable& dy) const {
    const Variable s = y();
    return dy * (s * (1 - s));
  }
  Tensor kernel_backward(const Tensor& dy) const {
    return by_kernel(kernels::sigmoid_backward, dy, y);
  }
};

struct Relu : UnaryOp<kernels::relu> {
  static constexpr std::string_view kName = "relu";
  static constexpr Activation kActivation = Activation::kRelu;
  SavedOutput<> y{};
  auto saved() { return std::tie(y); }

  Variable backward(const Variable& dy) const { return relu_gradient(dy, y()); }
  Tensor kernel_backward(const Tensor& dy) const {
    return by_kernel(kernels::relu_backward, dy, y);
  }
};

struct LeakyRelu {
  static constexpr std::string_view kName = "leaky_relu";
  double slope;
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  void write(const Tensor& x, Tensor& y) const { kernels::leaky_relu(x, slope, y); }
  Variable backward(const Variable& dy) const {
    // NaN receives the slope, as in PyTorch.
    return piecewise(dy, x(), {-kInfinity, 0.0, slope, slope, 1.0, /*closed=*/true});
  }
};

struct Elu {
  static constexpr std::string_view kName = "elu";
  double alpha, scale;
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  void write(const Tensor& x, Tensor& y) const { kernels::elu(x, alpha, scale, y); }
  Variable backward(const Variable& dy) const {
    const Variable in = x();
    const Variable curve = exp(clamp(in, {.max = 0.0})) * (alpha * scale);
    return piecewise(dy, in, {0.0, kInfinity, 0.0, scale, scale}) +
           piecewise(dy, in, {0.0, kInfinity, 1.0, 0.0, 0.0}) * curve;
  }
  Tensor kernel_backward(const Tensor& dy) const {
    return by_kernel(kernels::elu_backward, dy, x, alpha, scale);
  }
};

/// Returns x within [-limit, limit], beyond which a derivative is constant: the terms of its rule
/// stay finite.
Variable within(const Variable& x, double limit) { return clamp(x, {.min = -limit, .max = limit}); }
constexpr double kGeluLimit = 30, kSigmoidLimit = 800;

struct GeluErf : UnaryOp<kernels::gelu_erf> {
  static constexpr std::string_view kName = "gelu";
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  // dx = dy (Phi(x) + x phi(x))
  Variable backward(const Variable& dy) const {
    const Variable in = within(x(), kGeluLimit);
    constexpr double kDensity = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    const Variable below = erf(in * (1 / std::numbers::sqrt2)) * 0.5 + 0.5;
    return dy * (below + in * exp(square(in) * -0.5) * kDensity);
  }
  Tensor kernel_backward(const Tensor& dy) const {
    return by_kernel(kernels::gelu_erf_backward, dy, x);
  }
};

struct GeluTanh : UnaryOp<kernels::gelu_tanh> {
  static constexpr std::string_view kName = "gelu";
  static constexpr Activation kActivation = Activation::kGelu;
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  Variable backward(const Variable& dy) const {
    const Variable x = within(this->x(), kGeluLimit);
    constexpr double kScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi, kCubic = 0.044715;
    const Variable t = tanh((x + x * square(x) * kCubic) * kScale);
    const Variable slope = (square(x) * (3 * kCubic) + 1) * kScale;
    return dy * ((t + 1) * 0.5 + x * (1 - square(t)) * slope * 0.5);
  }
  Tensor kernel_backward(const Tensor& dy) const {
    return by_kernel(kernels::gelu_tanh_backward, dy, x);
  }
};

/// GeluTanh whose value a kernel has already computed.
struct KnownGelu : GeluTanh {
  Tensor y;

  Tensor forward(const Tensor&) { return std::move(y); }
};

struct Silu : UnaryOp<kernels::silu> {
  static constexpr std::string_view kName = "silu";
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  Variable backward(const Variable& dy) const {
    const Variable in = within(x(), kSigmoidLimit);
    const Variable s = sigmoid(in);
    return dy * (s * (in * (1 - s) + 1));
  }
  Tensor kernel_backward(const Tensor& dy) const {
    return by_kernel(kernels::silu_backward, dy, x);
  }
};

struct Mish : UnaryOp<kernels::mish> {
  static constexpr std::string_view kName = "mish";
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  Variable backward(const Variable& dy) const {
    const Variable in = within(x(), kSigmoidLimit);
    const Variable t = tanh(softplus(in));
    return dy * (t + in * sigmoid(in) * (1 - square(t)));
  }
  Tensor kernel_backward(const Tensor& dy) const {
    return by_kernel(kernels::mish_backward, dy, x);
  }
};

struct Softplus {
  static constexpr std::string_view kName = "softplus";
  double beta, threshold;
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  void write(const Tensor& x, Tensor& y) const { kernels::softplus(x, beta, threshold, y); }
  Variable backward(const Variable& dy) const {
    const Variable in = x();
    const Variable z = in * beta;
    return piecewise(dy, z, {-kInfinity, threshold, 0.0, 0.0, 1.0, /*closed=*/true}) +
           piecewise(dy, z, {-kInfinity, threshold, 1.0, 1.0, 0.0, /*closed=*/true}) * sigmoid(z);
  }
  Tensor kernel_backward(const Tensor& dy) const {
    return by_kernel(kernels::softplus_backward, dy, x, beta, threshold);
  }
};

struct Hardtanh {
  static constexpr std::string_view kName = "hardtanh";
  double min, max;
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  void write(const Tensor& x, Tensor& y) const { kernels::clamp(x, min, max, y); }
  Variable backward(const Variable& dy) const {
    return piecewise(dy, x(), {min, max, 0.0, 1.0, 0.0});
  }
};

struct LogSigmoid : UnaryOp<kernels::log_sigmoid> {
  static constexpr std::string_view kName = "logsigmoid";
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }
  Variable backward(const Variable& dy) const { return dy * sigmoid(-x()); }
  Tensor kernel_backward(const Tensor& dy) const {
    return by_kernel(kernels::log_sigmoid_backward, dy, x);
  }
};

struct Hardsigmoid : UnaryOp<kernels::hardsigmoid> {
  static constexpr std::string_view kName = "hardsigmoid";
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }
  Variable backward(const Variable& dy) const {
    const Variable in = x();  // two steps, which both give 0 for NaN
    return piecewise(piecewise(dy, in, {3.0, kInfinity, 1.0 / 6, 0.0, 0.0, /*closed=*/true}), in,
                     {-kInfinity, -3.0, 0.0, 0.0, 1.0, /*closed=*/true});
  }
};

struct Hardswish : UnaryOp<kernels::hardswish> {
  static constexpr std::string_view kName = "hardswish";
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  Variable backward(const Variable& dy) const {
    const Variable in = x();
    return piecewise(dy, in, {-3.0, 3.0, 0.0, 0.0, 1.0}) +
           piecewise(dy, in, {-3.0, 3.0, 0.0, 1.0, 0.0}) * (within(in, 3.0) / 3 + 0.5);
  }
  Tensor kernel_backward(const Tensor& dy) const {
    return by_kernel(kernels::hardswish_backward, dy, x);
  }
};

/// Results for integers, where PyTorch has them.
template <typename Op>
Variable of_integers(const Op&, const Variable& x, Where, std::string_view name) {
  fail<DTypeError>(name, ": floats only, not ", x.dtype());
}
Variable of_integers(const Sigmoid& op, const Variable& x, Where where, std::string_view) {
  return apply(op, where, x.to(default_dtype(), where));
}
Variable of_integers(const Relu&, const Variable& x, Where where, std::string_view) {
  return clamp(x, {.min = 0}, where);
}
Variable of_integers(const Hardtanh& op, const Variable& x, Where where, std::string_view) {
  const auto whole = [](double bound) { return Number(bound).saturated<int64_t>(); };
  return clamp(x, {.min = whole(op.min), .max = whole(op.max)}, where);
}

template <typename Op>
Variable activation(Op op, Variable&& x, Where where, std::string_view name = Op::kName) {
  if (!is_float(x.value(where).dtype())) [[unlikely]] {
    const ErrorLine line(where);
    return of_integers(op, x, where, name);
  }
  return apply_over(std::move(op), where, {std::move(x)});
}

}  // namespace

Variable sigmoid(Variable x, Where where) { return activation(Sigmoid{}, std::move(x), where); }
Variable relu(Variable x, Where where) { return activation(Relu{}, std::move(x), where); }
Variable relu6(Variable x, Where where) {
  return activation(Hardtanh{0.0, 6.0}, std::move(x), where, "relu6");
}
Variable hardtanh(Variable x, double min_val, double max_val, Where where) {
  const ErrorLine line(where);
  if (!(min_val <= max_val)) [[unlikely]]
    fail<ArgumentError>("hardtanh: min_val ", min_val, " is not below max_val ", max_val);
  return activation(Hardtanh{min_val, max_val}, std::move(x), where);
}
Variable logsigmoid(Variable x, Where where) {
  return activation(LogSigmoid{}, std::move(x), where);
}
Variable leaky_relu(Variable x, double negative_slope, Where where) {
  return activation(LeakyRelu{negative_slope}, std::move(x), where);
}
Variable elu(Variable x, double alpha, Where where) {
  return activation(Elu{alpha, 1.0}, std::move(x), where);
}
Variable selu(Variable x, Where where) {
  return activation(Elu{1.6732632423543772848, 1.0507009873554804934}, std::move(x), where, "selu");
}
template <typename>
Variable gelu(Variable x, Choice<Gelu> approximate, Where where) {
  return approximate == Gelu::kErf ? activation(GeluErf{}, std::move(x), where)
                                   : activation(GeluTanh{}, std::move(x), where);
}
template Variable gelu(Variable, Choice<Gelu>, Where);
Variable gelu(Variable x, GeluOptions options, Where where) {
  return gelu(std::move(x), options.approximate, where);
}
Variable gelu_tanh_known(const Variable& x, Tensor y, Where where) {
  return apply(KnownGelu{{}, std::move(y)}, where, x);
}
Variable silu(Variable x, Where where) { return activation(Silu{}, std::move(x), where); }
Variable mish(Variable x, Where where) { return activation(Mish{}, std::move(x), where); }
Variable softplus(Variable x, double beta, double threshold, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_float32([](const auto&... a) { return softplus(a...); }, where, x, beta, threshold);
  const ErrorLine line(where);
  if (!(beta > 0.0)) [[unlikely]]
    fail<ArgumentError>("softplus: beta must be positive: ", beta);
  return activation(Softplus{beta, threshold}, std::move(x), where);
}
Variable hardsigmoid(Variable x, Where where) {
  return activation(Hardsigmoid{}, std::move(x), where);
}
Variable hardswish(Variable x, Where where) { return activation(Hardswish{}, std::move(x), where); }

Variable& relu_(Variable& x, Where where) {
  const ErrorLine line(where);
  if (!is_float(x.dtype())) [[unlikely]]
    return x.copy_(relu(x, where), where);
  apply_in_place(Relu{}, where, x);
  return x;
}
Variable& sigmoid_(Variable& x, Where where) {
  const ErrorLine line(where);
  if (!is_float(x.dtype())) [[unlikely]]
    fail<DTypeError>("sigmoid_: floats only, not ", x.dtype());
  apply_in_place(Sigmoid{}, where, x);
  return x;
}

void catalog_activation(Catalog& catalog) {
  catalog.add("sigmoid(input)", "1 / (1 + exp(-x))",
              [](const Arguments& a) { return sigmoid(a[0]); });
  catalog.add("relu(input)", "max(x, 0)", [](const Arguments& a) { return relu(a[0]); });
  catalog.add("relu6(input)", "min(max(x, 0), 6)", [](const Arguments& a) { return relu6(a[0]); });
  catalog.add("leaky_relu(input, negative_slope: float = 0.01)", "x where x > 0, else slope * x",
              [](const Arguments& a) { return leaky_relu(a[0], a.real("negative_slope")); });
  catalog.add("elu(input, alpha: float = 1.0)", "x where x > 0, else alpha * (exp(x) - 1)",
              [](const Arguments& a) { return elu(a[0], a.real("alpha")); });
  catalog.add("selu(input)", "1.0507 * elu(x, 1.6733)",
              [](const Arguments& a) { return selu(a[0]); });
  catalog.add("gelu(input, approximate: str = none)", "x * Phi(x), or its tanh approximation",
              [](const Arguments& a) {
                return gelu(a[0],
                            a.has("approximate") ? a.text("approximate") : std::string("none"));
              });
  catalog.add("silu(input)", "x * sigmoid(x)", [](const Arguments& a) { return silu(a[0]); });
  catalog.add("mish(input)", "x * tanh(softplus(x))",
              [](const Arguments& a) { return mish(a[0]); });
  catalog.add("softplus(input, beta: float = 1.0, threshold: float = 20.0)",
              "log(1 + exp(beta x)) / beta; x where beta x > threshold", [](const Arguments& a) {
                return softplus(a[0], a.real("beta"), a.real("threshold"));
              });
  catalog.add("hardsigmoid(input)", "clamp(x / 6 + 1/2, 0, 1)",
              [](const Arguments& a) { return hardsigmoid(a[0]); });
  catalog.add("hardswish(input)", "x * hardsigmoid(x)",
              [](const Arguments& a) { return hardswish(a[0]); });
  catalog.add("logsigmoid(input)", "log(1 / (1 + exp(-x)))",
              [](const Arguments& a) { return logsigmoid(a[0]); });
  catalog.add(
      "hardtanh(input, min_val: float = -1.0, max_val: float = 1.0)", "x limited to the interval",
      [](const Arguments& a) { return hardtanh(a[0], a.real("min_val"), a.real("max_val")); });
  catalog.add("relu_(input)", "max(x, 0), in place",
              [](const Arguments& a) {
                Variable x = a[0];
                return relu_(x);
              },
              {.inplace = true});
  catalog.add("sigmoid_(input)", "1 / (1 + exp(-x)), in place",
              [](const Arguments& a) {
                Variable x = a[0];
                return sigmoid_(x);
              },
              {.inplace = true});
}

}  // namespace tapegrad
