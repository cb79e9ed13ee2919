#include "ops/arithmetic.h"

#include <cmath>

#include "core/tape/internal/call_line.h"
#include "ops/catalog.h"
#include "ops/internal/kernels/pointwise.h"
#include "ops/internal/operands.h"
#include "ops/internal/value_checks.h"

namespace tapegrad {
namespace kernels {

constinit Binary xlogy{"xlogy"}, logaddexp{"logaddexp"}, hypot{"hypot"};
constinit Binary remainder{"remainder"}, floor_divide{"floor_divide"};
constinit Binary bitwise_and{"bitwise_and"}, bitwise_or{"bitwise_or"}, bitwise_xor{"bitwise_xor"},
    bitwise_left_shift{"bitwise_left_shift"}, bitwise_right_shift{"bitwise_right_shift"},
    gcd{"gcd"};
constinit decltype(logaddexp_backward) logaddexp_backward{"logaddexp_backward"};
constinit decltype(hypot_backward) hypot_backward{"hypot_backward"};
constinit decltype(lerp) lerp{"lerp"};
constinit decltype(addcmul) addcmul{"addcmul"}, addcdiv{"addcdiv"};

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

struct FloorDivide : BinaryOp<kernels::floor_divide> {
  static constexpr std::string_view kName = "floor_divide";
  static constexpr bool kDifferentiable = false;

  Tensor forward(const Tensor& a, const Tensor& b) {
    check_divisor(kName, b);
    return BinaryOp::forward(a, b);
  }
  void write(const Tensor& a, const Tensor& b, Tensor& y) {
    check_divisor(kName, b);
    BinaryOp::write(a, b, y);
  }
};

/// A bitwise op of integers.
template <const kernels::Binary& kernel, Literal name>
struct OfBits : BinaryOp<kernel> {
  static constexpr std::string_view kName = name.text;
  static constexpr bool kDifferentiable = false;
};
using BitwiseAnd = OfBits<kernels::bitwise_and, "bitwise_and">;
using BitwiseOr = OfBits<kernels::bitwise_or, "bitwise_or">;
using BitwiseXor = OfBits<kernels::bitwise_xor, "bitwise_xor">;
using LeftShift = OfBits<kernels::bitwise_left_shift, "bitwise_left_shift">;
using RightShift = OfBits<kernels::bitwise_right_shift, "bitwise_right_shift">;
using Gcd = OfBits<kernels::gcd, "gcd">;

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

CloseOptions close_options(const Arguments& a) {
  return {a.real("rtol"), a.real("atol"), a.flag("equal_nan")};
}

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

Variable bitwise_and(Operand a, Operand b) { return run<BitwiseAnd>(a, b); }
Variable bitwise_or(Operand a, Operand b) { return run<BitwiseOr>(a, b); }
Variable bitwise_xor(Operand a, Operand b) { return run<BitwiseXor>(a, b); }
Variable bitwise_not(Variable x, Where where) {
  if (x.dtype() == boolean) return logical_not(x, where);
  // XOR with all ones flips every bit, for unsigned integers, too.
  const Variable ones(Tensor::full({}, x.dtype() == u8 ? 255 : -1, x.dtype(), x.device()));
  return apply_over(BitwiseXor{}, where, {std::move(x), ones});
}
Variable bitwise_left_shift(Operand a, Operand b) { return run<LeftShift>(a, b); }
Variable bitwise_right_shift(Operand a, Operand b) { return run<RightShift>(a, b); }
Variable gcd(Operand a, Operand b) { return run<Gcd>(a, b); }

Variable isclose(const Variable& a, const Variable& b, CloseOptions options, Where where) {
  const ErrorLine line(where);
  if (!(options.rtol >= 0 && options.atol >= 0))
    fail<ArgumentError>("isclose: a tolerance is negative: rtol ", options.rtol, ", atol ",
                        options.atol);
  const NoGrad off;
  const DType common = common_dtype("isclose", {a, where}, {b, where});
  const DType dtype = is_float(common) ? common : f64;
  const Variable x = a.to(dtype), y = b.to(dtype), difference = abs(x - y);
  const Variable near = le(difference, abs(y) * options.rtol + options.atol);
  const Variable equal = eq({a, where}, {b, where});
  const Variable close = logical_or(equal, logical_and(near, isfinite(difference)));
  return options.equal_nan ? logical_or(close, logical_and(isnan(x), isnan(y))) : close;
}
bool allclose(const Variable& a, const Variable& b, CloseOptions options, Where where) {
  return all(isclose(a, b, options, where), where).item<bool>(where);
}

void catalog_arithmetic(Catalog& catalog) {
  using A = const Arguments&;
  const OpTraits flat{.max_order = 0};
  const auto call = []<auto op>() {
    return [](A a) { return op(a[0], a[1]); };
  };
  catalog.add("xlogy(input, other)", "input log(other), and 0 for 0", call.operator()<xlogy>());
  catalog.add("xlog1py(input, other)", "input log(1 + other), and 0 for 0",
              call.operator()<xlog1py>());
  catalog.add("logaddexp(input, other)", "log(exp(input) + exp(other))",
              call.operator()<logaddexp>());
  catalog.add("hypot(input, other)", "sqrt(input^2 + other^2)", call.operator()<hypot>());
  catalog.add("remainder(input, other)", "input - other floor(input / other)",
              call.operator()<remainder>());
  catalog.add("floor_divide(input, other)", "floor(input / other)", call.operator()<floor_divide>(),
              flat);
  catalog.add("lerp(input, end, weight)", "input + weight (end - input)",
              [](A a) { return lerp(a[0], a[1], a[2]); });
  catalog.add("addcmul(input, tensor1, tensor2, value: number = 1)",
              "input + value tensor1 tensor2",
              [](A a) { return addcmul(a[0], a[1], a[2], a.number("value")); });
  catalog.add("addcdiv(input, tensor1, tensor2, value: number = 1)",
              "input + value tensor1 / tensor2",
              [](A a) { return addcdiv(a[0], a[1], a[2], a.number("value")); });
  catalog.add("bitwise_and(input, other)", "the bits of both", call.operator()<bitwise_and>(),
              flat);
  catalog.add("bitwise_or(input, other)", "the bits of either", call.operator()<bitwise_or>(),
              flat);
  catalog.add("bitwise_xor(input, other)", "the bits of just one", call.operator()<bitwise_xor>(),
              flat);
  catalog.add(
      "bitwise_not(input)", "the bits it has not", [](A a) { return bitwise_not(a[0]); }, flat);
  catalog.add("bitwise_left_shift(input, other)", "input 2^other",
              call.operator()<bitwise_left_shift>(), flat);
  catalog.add("bitwise_right_shift(input, other)", "floor(input / 2^other)",
              call.operator()<bitwise_right_shift>(), flat);
  catalog.add("gcd(input, other)", "the greatest common divisor", call.operator()<gcd>(), flat);
  catalog.add(
      "isclose(input, other, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = false)",
      "|input - other| <= atol + rtol |other|",
      [](A a) { return isclose(a[0], a[1], close_options(a)); }, flat);
  catalog.add(
      "allclose(input, other, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = false)",
      "all are close", [](A a) { return all(isclose(a[0], a[1], close_options(a))); }, flat);
}

}  // namespace tapegrad
