#include "ops/unary.h"

#include <cmath>
#include <numbers>

#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/view.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/internal/is_recorded.h"
#include "ops/internal/kernels/pointwise.h"
#include "ops/internal/operands.h"

namespace tapegrad {

namespace kernels {
constinit Unary neg{"neg"}, abs{"abs"}, sign{"sign"}, square{"square"}, step{"step"};
constinit Unary exp{"exp"}, expm1{"expm1"}, log{"log"}, log1p{"log1p"}, log2{"log2"};
constinit Unary log10{"log10"};
constinit Unary sqrt{"sqrt"}, rsqrt{"rsqrt"}, reciprocal{"reciprocal"};
constinit Unary sin{"sin"}, cos{"cos"}, tan{"tan"}, tanh{"tanh"}, erf{"erf"};
constinit Unary floor{"floor"}, ceil{"ceil"}, round{"round"}, trunc{"trunc"};
constinit Unary isnan{"isnan"}, isfinite{"isfinite"};
constinit decltype(clamp) clamp{"clamp"};
constinit Binary abs_backward{"abs_backward"}, square_backward{"square_backward"};
constinit Binary cube_backward{"cube_backward"};
constinit Binary log1p_backward{"log1p_backward"}, expm1_backward{"expm1_backward"};
constinit Binary sqrt_backward{"sqrt_backward"}, rsqrt_backward{"rsqrt_backward"};
constinit Binary reciprocal_backward{"reciprocal_backward"}, erf_backward{"erf_backward"};
constinit Binary sin_backward{"sin_backward"}, cos_backward{"cos_backward"};
constinit Binary tan_backward{"tan_backward"}, tanh_backward{"tanh_backward"};
constinit decltype(piecewise) piecewise{"piecewise"};
}  // namespace kernels

using namespace detail;

namespace {

/// An op with zero derivative.
template <const kernels::Unary& kernel>
struct FlatOp : UnaryOp<kernel> {
  Variable backward(const Variable& dy) const { return zeros_like(dy); }
};

struct Neg : UnaryOp<kernels::neg> {
  static constexpr std::string_view kName = "neg";
  Variable backward(const Variable& dy) const { return neg(dy); }
};

struct Abs : UnaryOp<kernels::abs> {
  static constexpr std::string_view kName = "abs";
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }
  Variable backward(const Variable& dy) const { return dy * sign(x()); }
  Tensor kernel_backward(const Tensor& dy) const { return by_kernel(kernels::abs_backward, dy, x); }
};

struct Sign : FlatOp<kernels::sign> {
  static constexpr std::string_view kName = "sign";
};

struct Exp : UnaryOp<kernels::exp> {
  static constexpr std::string_view kName = "exp";
  SavedOutput<> y{};
  auto saved() { return std::tie(y); }
  Variable backward(const Variable& dy) const { return dy * y(); }
};

struct Expm1 : UnaryOp<kernels::expm1> {
  static constexpr std::string_view kName = "expm1";
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }
  Variable backward(const Variable& dy) const { return dy * exp(x()); }  // y + 1 loses digits
  Tensor kernel_backward(const Tensor& dy) const {
    return by_kernel(kernels::expm1_backward, dy, x);
  }
};

struct Log : UnaryOp<kernels::log> {
  static constexpr std::string_view kName = "log";
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }
  Variable backward(const Variable& dy) const { return dy / x(); }
};

struct Log1p : UnaryOp<kernels::log1p> {
  static constexpr std::string_view kName = "log1p";
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }
  Variable backward(const Variable& dy) const { return dy / (x() + 1); }
  Tensor kernel_backward(const Tensor& dy) const {
    return by_kernel(kernels::log1p_backward, dy, x);
  }
};

struct Log2 : UnaryOp<kernels::log2> {
  static constexpr std::string_view kName = "log2";
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }
  Variable backward(const Variable& dy) const { return dy / (x() * std::numbers::ln2); }
};

struct Log10 : UnaryOp<kernels::log10> {
  static constexpr std::string_view kName = "log10";
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }
  Variable backward(const Variable& dy) const { return dy / (x() * std::numbers::ln10); }
};

struct Sqrt : UnaryOp<kernels::sqrt> {
  static constexpr std::string_view kName = "sqrt";
  SavedOutput<> y{};
  auto saved() { return std::tie(y); }
  Variable backward(const Variable& dy) const { return dy / (y() * 2); }
  Tensor kernel_backward(const Tensor& dy) const {
    return by_kernel(kernels::sqrt_backward, dy, y);
  }
};

struct Rsqrt : UnaryOp<kernels::rsqrt> {
  static constexpr std::string_view kName = "rsqrt";
  SavedOutput<> y{};
  auto saved() { return std::tie(y); }
  Variable backward(const Variable& dy) const {  // dx = -dy x^(-3/2) / 2
    const Variable root = y();
    return dy * (root * root * root * -0.5);
  }
  Tensor kernel_backward(const Tensor& dy) const {
    return by_kernel(kernels::rsqrt_backward, dy, y);
  }
};

struct Square : UnaryOp<kernels::square> {
  static constexpr std::string_view kName = "square";
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }
  Variable backward(const Variable& dy) const { return dy * (x() * 2); }
  Tensor kernel_backward(const Tensor& dy) const {
    return by_kernel(kernels::square_backward, dy, x);
  }
};

struct Reciprocal : UnaryOp<kernels::reciprocal> {
  static constexpr std::string_view kName = "reciprocal";
  SavedOutput<> y{};
  auto saved() { return std::tie(y); }
  Variable backward(const Variable& dy) const {
    const Variable inverse = y();
    return neg(dy * (inverse * inverse));
  }
  Tensor kernel_backward(const Tensor& dy) const {
    return by_kernel(kernels::reciprocal_backward, dy, y);
  }
};

struct Sin : UnaryOp<kernels::sin> {
  static constexpr std::string_view kName = "sin";
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }
  Variable backward(const Variable& dy) const { return dy * cos(x()); }
  Tensor kernel_backward(const Tensor& dy) const { return by_kernel(kernels::sin_backward, dy, x); }
};

struct Cos : UnaryOp<kernels::cos> {
  static constexpr std::string_view kName = "cos";
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }
  Variable backward(const Variable& dy) const { return neg(dy * sin(x())); }
  Tensor kernel_backward(const Tensor& dy) const { return by_kernel(kernels::cos_backward, dy, x); }
};

struct Tan : UnaryOp<kernels::tan> {
  static constexpr std::string_view kName = "tan";
  SavedOutput<> y{};
  auto saved() { return std::tie(y); }
  Variable backward(const Variable& dy) const { return dy * (square(y()) + 1); }
  Tensor kernel_backward(const Tensor& dy) const { return by_kernel(kernels::tan_backward, dy, y); }
};

struct Tanh : UnaryOp<kernels::tanh> {
  static constexpr std::string_view kName = "tanh";
  SavedOutput<> y{};
  auto saved() { return std::tie(y); }
  Variable backward(const Variable& dy) const { return dy * (1 - square(y())); }
  Tensor kernel_backward(const Tensor& dy) const {
    return by_kernel(kernels::tanh_backward, dy, y);
  }
};

struct Erf : UnaryOp<kernels::erf> {
  static constexpr std::string_view kName = "erf";
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }
  Variable backward(const Variable& dy) const {
    return dy * (exp(neg(square(x()))) * (2 * std::numbers::inv_sqrtpi));
  }
  Tensor kernel_backward(const Tensor& dy) const { return by_kernel(kernels::erf_backward, dy, x); }
};

struct Floor : FlatOp<kernels::floor> {
  static constexpr std::string_view kName = "floor";
};
struct Ceil : FlatOp<kernels::ceil> {
  static constexpr std::string_view kName = "ceil";
};
struct Round : FlatOp<kernels::round> {
  static constexpr std::string_view kName = "round";
};
struct Trunc : FlatOp<kernels::trunc> {
  static constexpr std::string_view kName = "trunc";
};
struct Step : FlatOp<kernels::step> {
  static constexpr std::string_view kName = "step";
};

struct Piecewise {
  static constexpr std::string_view kName = "piecewise";
  kernels::Pieces pieces;
  SavedInput<1, /*for*/ 0> x{};
  auto saved() { return std::tie(x); }

  Tensor forward(const Tensor& dy, const Tensor& x) const {
    Tensor dx = x.empty_like(x.shape());
    kernels::piecewise(dy, x, pieces, dx);
    return dx;
  }
  std::array<Variable, 2> backward(const Variable& ddx, Needs needs) const {
    return {needs[0] ? piecewise(ddx, x(), pieces) : Variable(), Variable()};
  }
};

struct Clamp {
  static constexpr std::string_view kName = "clamp";
  Number min, max;
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  void write(const Tensor& x, Tensor& y) const { kernels::clamp(x, min, max, y); }
  Variable backward(const Variable& dy) const {
    return piecewise(dy, x(), {min.real(), max.real(), 0.0, 1.0, 0.0, /*closed=*/true});
  }
};

struct ClampInPlace {
  static constexpr std::string_view kName = "clamp_";
  static constexpr bool kChecksFirst = true;
  Number min, max;
  bool keep;      // keep x for the gradient
  Tensor x = {};  // x before the write

  void write(const Tensor& old, Tensor& y) {
    if (keep) x = old.clone();
    kernels::clamp(old, min, max, y);
  }
  Variable backward(const Variable& dy) const {
    return piecewise(dy, Variable(x), {min.real(), max.real(), 0.0, 1.0, 0.0, /*closed=*/true});
  }
};

Tensor test(const kernels::Unary& kernel, const Tensor& x) {
  Tensor y = Tensor::empty(x.shape(), boolean, x.device());
  kernel(x, y);
  return y;
}

struct IsNan {
  static constexpr std::string_view kName = "isnan";
  static constexpr bool kDifferentiable = false;
  Tensor forward(const Tensor& x) const { return test(kernels::isnan, x); }
};
struct IsFinite {
  static constexpr std::string_view kName = "isfinite";
  static constexpr bool kDifferentiable = false;
  Tensor forward(const Tensor& x) const { return test(kernels::isfinite, x); }
};

/// Rounding leaves integers unchanged.
template <typename Op>
Variable rounded(Variable x, Where where) {
  return is_float(x.dtype()) ? apply_over(Op{}, where, {std::move(x)}) : clone(x, where);
}

template <typename Op>
Variable& write_float(Op op, Variable& x, Where where) {
  const ErrorLine line(where);
  if (!is_float(x.dtype())) [[unlikely]]
    fail<DTypeError>(Op::kName, "_: the result is not of ", x.dtype());
  apply_in_place(std::move(op), where, x);
  return x;
}

bool is_bound(const Number& number) { return number.kind() != f64 || !std::isinf(number.real()); }

void check_bounds(std::string_view op, const ClampOptions& options) {
  if (std::isnan(options.min.real()) || std::isnan(options.max.real())) [[unlikely]]
    fail<ArgumentError>(op, ": a bound is NaN");
}

/// Returns the dtype that holds x and the given bounds.
DType clamp_dtype(const Variable& x, const ClampOptions& options) {
  DType dtype = x.dtype();
  if (is_bound(options.min)) dtype = promote(dtype, options.min);
  if (is_bound(options.max)) dtype = promote(dtype, options.max);
  return dtype;
}

}  // namespace

Variable neg(Variable x, Where where) { return apply_over(Neg{}, where, {std::move(x)}); }
Variable abs(Variable x, Where where) { return apply_over(Abs{}, where, {std::move(x)}); }
Variable sign(Variable x, Where where) { return apply_over(Sign{}, where, {std::move(x)}); }
Variable exp(Variable x, Where where) { return of_wide_float<Exp>(std::move(x), where); }
Variable expm1(Variable x, Where where) { return of_wide_float<Expm1>(std::move(x), where); }
Variable log(Variable x, Where where) { return of_wide_float<Log>(std::move(x), where); }
Variable log1p(Variable x, Where where) { return of_wide_float<Log1p>(std::move(x), where); }
Variable log2(Variable x, Where where) { return of_wide_float<Log2>(std::move(x), where); }
Variable log10(Variable x, Where where) { return of_wide_float<Log10>(std::move(x), where); }
Variable sqrt(Variable x, Where where) { return of_float<Sqrt>(std::move(x), where); }
Variable rsqrt(Variable x, Where where) { return of_wide_float<Rsqrt>(std::move(x), where); }
Variable square(Variable x, Where where) {
  if (x.value(where).dtype() == boolean) [[unlikely]]
    x = x.to(i64, where);
  return apply_over(Square{}, where, {std::move(x)});
}
Variable reciprocal(Variable x, Where where) {
  return of_wide_float<Reciprocal>(std::move(x), where);
}
Variable sin(Variable x, Where where) { return of_float<Sin>(std::move(x), where); }
Variable cos(Variable x, Where where) { return of_float<Cos>(std::move(x), where); }
Variable tan(Variable x, Where where) { return of_wide_float<Tan>(std::move(x), where); }
Variable tanh(Variable x, Where where) { return of_float<Tanh>(std::move(x), where); }
Variable erf(Variable x, Where where) { return of_float<Erf>(std::move(x), where); }

Variable floor(Variable x, Where where) { return rounded<Floor>(std::move(x), where); }
Variable ceil(Variable x, Where where) { return rounded<Ceil>(std::move(x), where); }
Variable round(Variable x, Where where) { return rounded<Round>(std::move(x), where); }
Variable trunc(Variable x, Where where) { return rounded<Trunc>(std::move(x), where); }
Variable step(Variable x, Where where) { return apply_over(Step{}, where, {std::move(x)}); }

Variable isnan(const Variable& x, Where where) { return apply(IsNan{}, where, x); }
Variable isfinite(const Variable& x, Where where) { return apply(IsFinite{}, where, x); }

Variable piecewise(const Variable& dy, const Variable& x, const kernels::Pieces& pieces) {
  return apply(Piecewise{pieces}, Where::current(), dy, x);
}

Variable clamp(Variable x, ClampOptions options, Where where) {
  const ErrorLine line(where);
  check_bounds("clamp", options);
  const DType dtype = clamp_dtype(x, options);
  if (dtype != x.dtype()) x = x.to(dtype, where);
  return apply_over(Clamp{options.min, options.max}, where, {std::move(x)});
}

Variable& neg_(Variable& x, Where where) {
  apply_in_place(Neg{}, where, x);
  return x;
}
Variable& exp_(Variable& x, Where where) { return write_float(Exp{}, x, where); }
Variable& sqrt_(Variable& x, Where where) { return write_float(Sqrt{}, x, where); }
Variable& tanh_(Variable& x, Where where) { return write_float(Tanh{}, x, where); }

Variable& clamp_(Variable& x, ClampOptions options, Where where) {
  const ErrorLine line(where);
  check_bounds("clamp_", options);
  if (clamp_dtype(x, options) != x.dtype()) [[unlikely]]
    fail<DTypeError>("clamp_: bounds ", options.min, " and ", options.max, " are not of ",
                     x.dtype());
  apply_in_place(ClampInPlace{options.min, options.max, is_recorded(x)}, where, x);
  return x;
}

static ClampOptions bounds_of(const Arguments& a) {
  ClampOptions options;
  if (a.has("min")) options.min = a.number("min");
  if (a.has("max")) options.max = a.number("max");
  return options;
}

void catalog_unary(Catalog& catalog) {
  constexpr OpTraits kFlat{.max_order = 0};
  catalog.add("neg(input)", "-x", [](const Arguments& a) { return neg(a[0]); });
  catalog.add("abs(input)", "|x|", [](const Arguments& a) { return abs(a[0]); });
  catalog.add("sign(input)", "-1, 0 or 1", [](const Arguments& a) { return sign(a[0]); });
  catalog.add("exp(input)", "exp(x)", [](const Arguments& a) { return exp(a[0]); });
  catalog.add("expm1(input)", "exp(x) - 1", [](const Arguments& a) { return expm1(a[0]); });
  catalog.add("log(input)", "log(x)", [](const Arguments& a) { return log(a[0]); });
  catalog.add("log1p(input)", "log(1 + x)", [](const Arguments& a) { return log1p(a[0]); });
  catalog.add("log2(input)", "log(x) / log(2)", [](const Arguments& a) { return log2(a[0]); });
  catalog.add("log10(input)", "log(x) / log(10)", [](const Arguments& a) { return log10(a[0]); });
  catalog.add("sqrt(input)", "x^(1/2)", [](const Arguments& a) { return sqrt(a[0]); });
  catalog.add("rsqrt(input)", "x^(-1/2)", [](const Arguments& a) { return rsqrt(a[0]); });
  catalog.add("square(input)", "x^2", [](const Arguments& a) { return square(a[0]); });
  catalog.add("reciprocal(input)", "1 / x", [](const Arguments& a) { return reciprocal(a[0]); });
  catalog.add("sin(input)", "sin(x)", [](const Arguments& a) { return sin(a[0]); });
  catalog.add("cos(input)", "cos(x)", [](const Arguments& a) { return cos(a[0]); });
  catalog.add("tan(input)", "tan(x)", [](const Arguments& a) { return tan(a[0]); });
  catalog.add("tanh(input)", "tanh(x)", [](const Arguments& a) { return tanh(a[0]); });
  catalog.add("erf(input)", "2 / sqrt(pi) * integral of exp(-t^2) from 0 to x",
              [](const Arguments& a) { return erf(a[0]); });
  catalog.add("floor(input)", "the largest whole number <= x",
              [](const Arguments& a) { return floor(a[0]); });
  catalog.add("ceil(input)", "the smallest whole number >= x",
              [](const Arguments& a) { return ceil(a[0]); });
  catalog.add("round(input)", "the nearest whole number, halves to even",
              [](const Arguments& a) { return round(a[0]); });
  catalog.add("trunc(input)", "x without its fraction",
              [](const Arguments& a) { return trunc(a[0]); });
  catalog.add("clamp(input, min: number = none, max: number = none)", "min(max(x, min), max)",
              [](const Arguments& a) { return clamp(a[0], bounds_of(a)); });
  catalog.add("step(input)", "1 where x > 0, else 0",
              [](const Arguments& a) { return step(a[0]); });
  catalog.add(
      "isnan(input)", "x != x", [](const Arguments& a) { return isnan(a[0]); }, kFlat);
  catalog.add(
      "isfinite(input)", "|x| < inf", [](const Arguments& a) { return isfinite(a[0]); }, kFlat);
  const auto add_over = [&](std::string_view signature, std::string_view formula, auto write) {
    catalog.add(signature, formula,
                [](const Arguments& a) {
                  Variable x = a[0];
                  return decltype(write)()(x);
                },
                {.inplace = true});
  };
  add_over("neg_(input)", "-x, in place", [](Variable& x) { return neg_(x); });
  add_over("exp_(input)", "exp(x), in place", [](Variable& x) { return exp_(x); });
  add_over("sqrt_(input)", "x^(1/2), in place", [](Variable& x) { return sqrt_(x); });
  add_over("tanh_(input)", "tanh(x), in place", [](Variable& x) { return tanh_(x); });
  catalog.add("clamp_(input, min: number = none, max: number = none)",
              "min(max(x, min), max), in place",
              [](const Arguments& a) {
                Variable x = a[0];
                return clamp_(x, bounds_of(a));
              },
              {.inplace = true});
}

}  // namespace tapegrad
