#include "ops/arithmetic.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "core/tape/internal/call_line.h"
#include "ops/catalog.h"
#include "ops/internal/kernels/pointwise.h"
#include "ops/internal/operands.h"
#include "ops/internal/value_checks.h"
#include "ops/unary.h"

namespace tapegrad {

namespace kernels {

constinit Unary exp2{"exp2"};
constinit Binary xlogy{"xlogy"}, logaddexp{"logaddexp"}, logaddexp2{"logaddexp2"}, hypot{"hypot"};
constinit Binary remainder{"remainder"}, floor_divide{"floor_divide"}, ldexp{"ldexp"};
constinit decltype(logaddexp_backward) logaddexp_backward{"logaddexp_backward"};
constinit decltype(hypot_backward) hypot_backward{"hypot_backward"};
constinit decltype(lerp) lerp{"lerp"};
constinit decltype(addcmul) addcmul{"addcmul"}, addcdiv{"addcdiv"};
constinit decltype(logit) logit{"logit"};
constinit decltype(logit_backward) logit_backward{"logit_backward"};

}  // namespace kernels

using namespace detail;

namespace {

struct Xlogy : BinaryOp<kernels::xlogy> {
  static constexpr std::string_view kName = "xlogy";
  SavedInput<0> a{};
  SavedInput<1> b{};
  auto saved() { return std::tie(a, b); }

  // d/da = log(b), or 0 where the result is 0 by definition; d/db = a / b.
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) {
      const Variable flat = logical_and(a() == 0, b() <= 0);
      dx[0] = reduce(0, where(flat, 0, xlogy(dy, where(flat, 1, b()))));
    }
    if (needs[1]) dx[1] = reduce(1, dy * a() / b());
    return dx;
  }
};

struct LogAddExp : BinaryOp<kernels::logaddexp> {
  static constexpr std::string_view kName = "logaddexp";
  SavedInput<0> a{};
  SavedInput<1> b{};
  auto saved() { return std::tie(a, b); }

  // d/da = exp(a) / (exp(a) + exp(b))
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = reduce(0, dy / (exp(b() - a()) + 1));
    if (needs[1]) dx[1] = reduce(1, dy / (exp(a() - b()) + 1));
    return dx;
  }
  std::array<Tensor, 2> kernel_backward(const Tensor& dy, Needs needs) const {
    return {gradient_by(kernels::logaddexp_backward, 0, dy, needs, a, b),
            gradient_by(kernels::logaddexp_backward, 1, dy, needs, b, a)};
  }
};

struct Hypot : BinaryOp<kernels::hypot> {
  static constexpr std::string_view kName = "hypot";
  SavedInput<0> a{};
  SavedInput<1> b{};
  SavedOutput<> y{};
  auto saved() { return std::tie(a, b, y); }

  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    const Variable length = where(y() == 0, 1, y());
    if (needs[0]) dx[0] = reduce(0, dy * (a() / length));
    if (needs[1]) dx[1] = reduce(1, dy * (b() / length));
    return dx;
  }
  std::array<Tensor, 2> kernel_backward(const Tensor& dy, Needs needs) const {
    return {gradient_by(kernels::hypot_backward, 0, dy, needs, a, y),
            gradient_by(kernels::hypot_backward, 1, dy, needs, b, y)};
  }
};

/// Throws ArgumentError if an integer divisor is 0.
void check_divisor(std::string_view op, const Tensor& b) {  // op: a literal
  if (is_float(b.dtype()) || b.numel() == 0) return;
  Tensor found = Tensor::empty(Dims::filled(b.rank(), 1), boolean, b.device());
  kernels::contains(b, /*zero=*/true, /*yes=*/true, found);
  check_values(found, [op](const Tensor& x) {
    if (x.item() != 0) fail<ArgumentError>(op, ": an integer is divided by 0");
  });
}

struct Remainder : BinaryOp<kernels::remainder> {
  static constexpr std::string_view kName = "remainder";
  SavedInput<0, /*for*/ 1> a{};
  SavedInput<1, /*for*/ 1> b{};
  auto saved() { return std::tie(a, b); }

  Tensor forward(const Tensor& a, const Tensor& b) {
    check_divisor(kName, b);
    return BinaryOp::forward(a, b);
  }
  void write(const Tensor& a, const Tensor& b, Tensor& y) {
    check_divisor(kName, b);
    BinaryOp::write(a, b, y);
  }
  // y = a - b floor(a / b); the quotient is constant wherever the derivative exists.
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = reduce(0, dy);
    if (needs[1]) dx[1] = -reduce(1, dy * floor_divide(a(), b()));
    return dx;
  }
};

/// Base of quotients rounded to whole numbers. The gradient is 0, as that of floor and trunc.
template <const kernels::Binary& kernel>
struct RoundedQuotient : BinaryOp<kernel> {
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    const Variable zero(Tensor::full(dy.shape(), 0.0, dy.dtype(), dy.device()));
    for (size_t i : {0, 1})
      if (needs[i]) dx[i] = this->reduce(i, zero);
    return dx;
  }
};

struct FloorDivide : RoundedQuotient<kernels::floor_divide> {
  static constexpr std::string_view kName = "floor_divide";

  Tensor forward(const Tensor& a, const Tensor& b) {
    check_divisor(kName, b);
    return BinaryOp::forward(a, b);
  }
  void write(const Tensor& a, const Tensor& b, Tensor& y) {
    check_divisor(kName, b);
    BinaryOp::write(a, b, y);
  }
};

/// Quotient of floats, rounded towards 0.
struct TruncDivide : RoundedQuotient<kernels::div> {
  static constexpr std::string_view kName = "div";

  Tensor forward(const Tensor& a, const Tensor& b) {
    Tensor y = BinaryOp::forward(a, b);
    kernels::trunc(y, y);
    return y;
  }
  void write(const Tensor& a, const Tensor& b, Tensor& y) {
    BinaryOp::write(a, b, y);
    kernels::trunc(y, y);
  }
};

struct Lerp {
  static constexpr std::string_view kName = "lerp";
  SavedInput<0, /*for*/ 2> start{};
  SavedInput<1, /*for*/ 2> end{};
  SavedInput<2, /*for*/ 0, 1> weight{};
  Unbroadcast<3> reduce{};
  auto saved() { return std::tie(start, end, weight); }

  Tensor forward(const Tensor& start, const Tensor& end, const Tensor& weight) {
    check_same_device(kName, start, end, weight);
    check_same_dtype(kName, start, end, is_wide_number(weight, start) ? Tensor() : weight);
    Tensor y = start.empty_like(
        broadcast(kName, broadcast(kName, start.shape(), end.shape()), weight.shape()));
    write(start, end, weight, y);
    return y;
  }
  void write(const Tensor& start, const Tensor& end, const Tensor& weight, Tensor& y) {
    reduce.remember(y.shape(), start, end, weight);
    kernels::lerp(start, end, weight, y);
  }
  static bool fits(const Tensor& x, const Tensor& other) { return fits_result(x, other); }
  std::array<Variable, 3> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 3> dx;
    if (needs[0]) dx[0] = reduce(0, (dy * (1 - weight())).to(dy.dtype()));
    if (needs[1]) dx[1] = reduce(1, (dy * weight()).to(dy.dtype()));
    if (needs[2]) dx[2] = reduce(2, dy * (end() - start()));
    return dx;
  }
};

/// Op that computes y = x + value * (a * b), or x + value * (a / b).
template <const auto& kernel, Literal name>
struct AddScaled {
  static constexpr std::string_view kName = name.text;
  static constexpr bool kDivides = &kernel == &kernels::addcdiv;
  double value;
  SavedInput<1, /*for*/ 1, 2> a{};
  SavedInput<2, /*for*/ 1, 2> b{};
  Unbroadcast<3> reduce{};
  auto saved() { return std::tie(a, b); }

  Tensor forward(const Tensor& x, const Tensor& a, const Tensor& b) {
    check_same_device(kName, x, a, b);
    Tensor y = x.empty_like(broadcast(kName, broadcast(kName, x.shape(), a.shape()), b.shape()));
    write(x, a, b, y);
    return y;
  }
  void write(const Tensor& x, const Tensor& a, const Tensor& b, Tensor& y) {
    reduce.remember(y.shape(), x, a, b);
    kernel(x, a, b, value, y);
  }
  static bool fits(const Tensor& x, const Tensor& other) { return fits_result(x, other); }
  std::array<Variable, 3> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 3> dx;
    if (needs[0]) dx[0] = reduce(0, dy);
    if (!needs[1] && !needs[2]) return dx;
    const Variable part = value == 1 ? dy : dy * value, over_b = kDivides ? part / b() : Variable();
    if (needs[1]) dx[1] = reduce(1, kDivides ? over_b : part * b());
    if (needs[2]) dx[2] = reduce(2, kDivides ? -over_b * (a() / b()) : part * a());
    return dx;
  }
};

bool are_floats_of_one_type(const Variable& x, const Variable& a, const Variable& b) {
  return is_float(x.dtype()) && a.dtype() == x.dtype() && b.dtype() == x.dtype();
}

/// Returns value * x; x itself for value 1.
Variable scaled(Variable x, const Number& value, Where where) {
  return value.kind() == i64 && value.to<int64_t>() == 1
             ? std::move(x)
             : mul({std::move(x), where}, {value, where});
}

/// Converts a factor of a product that is added to `input`, so that the product is computed in the
/// dtype of the result. A product of uint8 would wrap before it is added to a float.
Variable factor_for(std::string_view op, const Variable& input, const Variable& a, Where where) {
  return a.to(common_dtype(op, input, a), where);
}

struct Exp2 : UnaryOp<kernels::exp2> {
  static constexpr std::string_view kName = "exp2";
  SavedOutput<> y{};
  auto saved() { return std::tie(y); }
  Variable backward(const Variable& dy) const { return dy * (y() * std::numbers::ln2); }
};

struct LogAddExp2 : BinaryOp<kernels::logaddexp2> {
  static constexpr std::string_view kName = "logaddexp2";
  static constexpr bool kTakesWideNumber = false;
  SavedInput<0> a{};
  SavedInput<1> b{};
  auto saved() { return std::tie(a, b); }

  // d/da = 2^a / (2^a + 2^b)
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = reduce(0, dy / (exp2(b() - a()) + 1));
    if (needs[1]) dx[1] = reduce(1, dy / (exp2(a() - b()) + 1));
    return dx;
  }
};

struct Logit {
  static constexpr std::string_view kName = "logit";
  double low, high;
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  void write(const Tensor& x, Tensor& y) const { kernels::logit(x, low, high, y); }
  Variable backward(const Variable& dy) const {
    const Variable in = x(), outside = logical_or(lt(in, low), gt(in, high));
    const Variable p = where(outside, 0.5, in), square = p * (1 - p);
    const double unknown = std::numeric_limits<double>::quiet_NaN();
    return where(outside, 0, dy / where(lt(square, 0), unknown, square));
  }
  Tensor kernel_backward(const Tensor& dy) const {
    return by_kernel(kernels::logit_backward, dy, x, low, high);
  }
};

struct Ldexp : BinaryOp<kernels::ldexp> {
  static constexpr std::string_view kName = "ldexp";
  static constexpr bool kTakesWideNumber = false;
  SavedInput<1, /*for*/ 0> b{};
  SavedOutput<> y{};
  auto saved() { return std::tie(b, y); }

  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = reduce(0, ldexp(dy, b()));
    if (needs[1]) dx[1] = reduce(1, dy * (y() * std::numbers::ln2));
    return dx;
  }
};

}  // namespace

Variable xlogy(Operand a, Operand b) { return run_float<Xlogy>(a, b); }
Variable xlog1py(const Operand& x, const Operand& y) {
  const CallLine line(x.where);
  const auto [a, b] = Pair("xlog1py", x, y, float_dtype("xlog1py", x, y));
  // Elsewhere a product with 0 is 0, and its derivative in x is log1p(y).
  const Variable infinite = logical_or(le(b, -1.0), eq(b, INFINITY)),
                 zero = logical_and(eq(a, 0), infinite);
  return where(zero, 0, a * log1p(where(zero, 0, b)));
}

Variable logaddexp(Operand a, Operand b) { return run<LogAddExp>(a, b); }
Variable hypot(Operand a, Operand b) { return run_float<Hypot>(a, b); }
Variable remainder(Operand a, Operand b) { return run<Remainder>(a, b); }
Variable floor_divide(Operand a, Operand b) { return run<FloorDivide>(a, b); }
Variable div(const Operand& a, const Operand& b, std::string_view rounding_mode) {
  const CallLine line(a.where);
  if (rounding_mode == "floor") return floor_divide(a, b);
  if (rounding_mode != "trunc")
    fail<ArgumentError>("div: rounding_mode \"", rounding_mode,
                        "\"; \"floor\" or \"trunc\" wanted");
  if (is_float(common_dtype("div", a, b))) return run<TruncDivide>(a, b);
  return floor_divide(sub(a, fmod(a, b)), b);
}
Variable lerp(Variable start, Variable end, Operand weight) {
  const DType dtype = common_dtype("lerp", start, end);
  const Device device = start.device();
  const Operand from(std::move(start), weight.where), to(std::move(end), weight.where);
  const Converted a(as_variable, "lerp", from, dtype, device);
  const Converted b(as_variable, "lerp", to, dtype, device);
  const Converted c(weight.variable ? as_variable : as_factor, "lerp", weight, dtype, device);
  return apply_over(Lerp{}, weight.where, {a, b, c});
}

Variable addcmul(Variable input, const Variable& a, const Variable& b, Number value, Where where) {
  if (are_floats_of_one_type(input, a, b))
    return apply_over(AddScaled<kernels::addcmul, "addcmul">{value.real()}, where,
                      {std::move(input), a, b});
  const Variable factor = factor_for("addcmul", input, a, where);
  return add({std::move(input), where},
             {scaled(mul({factor, where}, {b, where}), value, where), where});
}

Variable addcdiv(Variable input, const Variable& a, const Variable& b, Number value, Where where) {
  const ErrorLine line(where);
  if (!is_float(promote(a.dtype(), b.dtype())))
    fail<DTypeError>("addcdiv: ", a.dtype(), " / ", b.dtype(), " is no whole number");
  if (are_floats_of_one_type(input, a, b))
    return apply_over(AddScaled<kernels::addcdiv, "addcdiv">{value.real()}, where,
                      {std::move(input), a, b});
  const Variable factor = factor_for("addcdiv", input, a, where);
  return add({std::move(input), where},
             {scaled(div({factor, where}, {b, where}), value, where), where});
}

Variable ldexp(const Operand& a, const Operand& b) { return run_float<Ldexp>(a, b); }
Variable float_power(const Operand& a, const Operand& b) {
  const CallLine line(a.where);
  const auto [base, exponent] = Pair("float_power", a, b, f64);
  return pow(base, exponent);
}

Variable logaddexp2(const Operand& a, const Operand& b) {
  const CallLine line(a.where);
  return run_float<LogAddExp2>(a, b);
}

Variable exp2(const Variable& x, Where where) { return of_float<Exp2>(x, where); }
Variable deg2rad(const Variable& x, Where where) {
  const CallLine line(where);
  return as_float(x, where) * (std::numbers::pi / 180);
}

Variable rad2deg(const Variable& x, Where where) {
  const CallLine line(where);
  return as_float(x, where) * (180 / std::numbers::pi);
}

Variable logit(const Variable& x, std::optional<double> eps, Where where) {
  const CallLine line(where);
  const double low = eps.value_or(-INFINITY), high = 1 - eps.value_or(-INFINITY);
  return apply(Logit{low, high}, where, as_float(x, where));
}

void catalog_arithmetic(Catalog& catalog) {
  using A = const Arguments&;
  const auto call = []<auto op>() {
    return [](A a) { return op(a[0], a[1]); };
  };
  const auto unary = []<Variable (*op)(const Variable&, Where)>() {
    return [](A a) { return op(a[0], Where::current()); };
  };
  catalog.add("xlogy(input, other)", "input log(other), and 0 for 0", call.operator()<xlogy>());
  catalog.add("xlog1py(input, other)", "input log(1 + other), and 0 for 0",
              call.operator()<xlog1py>());
  catalog.add("logaddexp(input, other)", "log(exp(input) + exp(other))",
              call.operator()<logaddexp>());
  catalog.add("hypot(input, other)", "sqrt(input^2 + other^2)", call.operator()<hypot>());
  catalog.add("remainder(input, other)", "input - other floor(input / other)",
              call.operator()<remainder>());
  catalog.add("floor_divide(input, other)", "floor(input / other)",
              call.operator()<floor_divide>());
  catalog.add("lerp(input, end, weight)", "input + weight (end - input)",
              [](A a) { return lerp(a[0], a[1], a[2]); });
  catalog.add("addcmul(input, tensor1, tensor2, value: number = 1)",
              "input + value tensor1 tensor2",
              [](A a) { return addcmul(a[0], a[1], a[2], a.number("value")); });
  catalog.add("addcdiv(input, tensor1, tensor2, value: number = 1)",
              "input + value tensor1 / tensor2",
              [](A a) { return addcdiv(a[0], a[1], a[2], a.number("value")); });
  catalog.add("ldexp(input, other)", "input 2^other", call.operator()<ldexp>());
  catalog.add("float_power(input, exponent)", "input^exponent in float64",
              call.operator()<float_power>());
  catalog.add("logaddexp2(input, other)", "log2(2^input + 2^other)", call.operator()<logaddexp2>());
  catalog.add("exp2(input)", "2^x", unary.operator()<exp2>());
  catalog.add("deg2rad(input)", "x pi / 180", unary.operator()<deg2rad>());
  catalog.add("rad2deg(input)", "x 180 / pi", unary.operator()<rad2deg>());
  catalog.add("logit(input, eps: float = none)", "log(x / (1 - x))", [](A a) {
    return logit(a[0], a.has("eps") ? std::optional(a.real("eps")) : std::nullopt);
  });
}

}  // namespace tapegrad
