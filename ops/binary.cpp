#include "ops/binary.h"

#include "core/dispatch/internal/hold_number.h"
#include "core/dispatch/kernels.h"
#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/arithmetic.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/internal/kernels/pointwise.h"
#include "ops/internal/operands.h"
#include "ops/rearrange.h"
#include "ops/unary.h"

namespace tapegrad {
namespace kernels {

constinit Binary add{"add"}, sub{"sub"}, mul{"mul"}, div{"div"}, pow{"pow"}, maximum{"maximum"},
    minimum{"minimum"}, atan2{"atan2"}, fmod{"fmod"};
constinit Binary eq{"eq"}, ne{"ne"}, lt{"lt"}, le{"le"}, gt{"gt"}, ge{"ge"};
constinit Binary logical_and{"logical_and"}, logical_or{"logical_or"};
constinit Unary logical_not{"logical_not"}, cube{"cube"};
constinit decltype(div_backward) div_backward{"div_backward"};
constinit decltype(atan2_backward) atan2_backward{"atan2_backward"};
constinit decltype(larger_gradient) larger_gradient{"larger_gradient"};
constinit decltype(where) where{"where"};

}  // namespace kernels

using namespace detail;

namespace {

struct Add : BinaryOp<kernels::add> {
  static constexpr std::string_view kName = "add";
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = reduce(0, dy);
    if (needs[1]) dx[1] = reduce(1, dy);
    return dx;
  }
};

struct Sub : BinaryOp<kernels::sub> {
  static constexpr std::string_view kName = "sub";
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = reduce(0, dy);
    if (needs[1]) dx[1] = -reduce(1, dy);
    return dx;
  }
};

struct Mul : BinaryOp<kernels::mul> {
  static constexpr std::string_view kName = "mul";
  SavedInput<0, /*for*/ 1> a{};
  SavedInput<1, /*for*/ 0> b{};
  auto saved() { return std::tie(a, b); }

  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = reduce(0, dy * b());
    if (needs[1]) dx[1] = reduce(1, dy * a());
    return dx;
  }
  std::array<Tensor, 2> kernel_backward(const Tensor& dy, Needs needs) const {
    return {needs[0] ? reduce_product(0, dy, b.value()) : Tensor(),
            needs[1] ? reduce_product(1, dy, a.value()) : Tensor()};
  }
};

/// x * x, whose gradient is one product instead of the sum of two.
struct MulBySelf {
  static constexpr std::string_view kName = "mul";
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  void write(const Tensor& x, Tensor& y) const { kernels::mul(x, x, y); }
  Variable backward(const Variable& dy) const { return dy * (x() * 2); }
  Tensor kernel_backward(const Tensor& dy) const {
    return by_kernel(kernels::square_backward, dy, x);
  }
};

struct Div : BinaryOp<kernels::div> {
  static constexpr std::string_view kName = "div";
  SavedInput<0, /*for*/ 1> a{};
  SavedInput<1> b{};
  auto saved() { return std::tie(a, b); }

  // d/da = 1 / b, d/db = -a / b^2
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    const Variable da = dy / b();
    if (needs[0]) dx[0] = reduce(0, da);
    if (needs[1]) dx[1] = reduce(1, -da * (a() / b()));
    return dx;
  }
  std::array<Tensor, 2> kernel_backward(const Tensor& dy, Needs needs) const {
    std::array<Tensor, 2> dx;
    const bool sums = shapes.is_broadcast(1) || dtypes[0] != dtypes[1];
    Tensor da;
    if (needs[0] || sums) da = compute(kernels::div, dy, b.value());
    if (needs[1] && sums) {
      dx[1] = reduce_product(1, da, compute(kernels::div, a.value(), b.value()));
      kernels::neg(dx[1], dx[1]);
    } else if (needs[1]) {
      dx[1] = dy.empty_like();
      kernels::div_backward(dy, a.value(), b.value(), dx[1]);
    }
    if (needs[0]) dx[0] = reduce(0, std::move(da));
    return dx;
  }
};

struct Pow : BinaryOp<kernels::pow> {
  static constexpr std::string_view kName = "pow";
  SavedInput<0> a{};
  SavedInput<1> b{};
  SavedOutput<> y{};
  auto saved() { return std::tie(a, b, y); }

  // d/da = b * a^(b-1), or 0 for 0^0 and NaN^0, where the power is computed as 0^1 and multiplied
  // by b = 0. d/db = a^b * log(a), or 0 for 0^b with b >= 0.
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) {
      const Variable flat = logical_and(logical_not(abs(a()) > 0), b() == 0);
      dx[0] = reduce(0, dy * (b() * pow(where(flat, 0, a()), where(flat, 1, b() - 1))));
    }
    if (needs[1]) {
      const Variable base = where(logical_and(a() == 0, b() >= 0), 1, a());
      dx[1] = reduce(1, dy * (y() * log(base)));
    }
    return dx;
  }
};

// a^n for a number n.
struct PowNumber {
  static constexpr std::string_view kName = "pow";
  Number exponent;
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  void write(const Tensor& x, Tensor& y) {
    if (exponent.real() == 2) return kernels::mul(x, x, y);
    if (is_float(x.dtype())) {
      if (exponent.real() == 3) return kernels::cube(x, y);
      if (exponent.real() == 0.5) return kernels::sqrt(x, y);
      if (exponent.real() == -0.5) return kernels::rsqrt(x, y);
      if (exponent.real() == -1) return kernels::reciprocal(x, y);
      // The square of x would overflow first. Sixteen-bit floats would be rounded twice.
      if (exponent.real() == -2 && size_of(x.dtype()) >= 4) {
        kernels::reciprocal(x, y);
        return kernels::mul(y, y, y);
      }
    }
    if (exponent.real() != 1)
      kernels::pow(x, number_operand(exponent, compute_dtype(x.dtype()), x.device()), y);
    else if (&x != &y)
      kernels::copy(x, y);
  }
  Variable backward(const Variable& dy) const {
    if (exponent.real() == 0) return zeros_like(dy);
    if (exponent.real() == 1) return dy;
    return dy * (exponent.real() * pow(x(), exponent.real() - 1));
  }
  Tensor kernel_backward(const Tensor& dy) const {
    if (exponent.real() == 2) return by_kernel(kernels::square_backward, dy, x);
    if (exponent.real() == 3) return by_kernel(kernels::cube_backward, dy, x);
    return backward(Variable(dy)).value();
  }
};

// dx = dy where a > b and dy / 2 where a = b: linear in dy, and constant in a and b wherever the
// derivative exists.
struct LargerGradient {
  static constexpr std::string_view kName = "larger_gradient";
  SavedInput<1> a{};
  SavedInput<2> b{};
  auto saved() { return std::tie(a, b); }

  Tensor forward(const Tensor& dy, const Tensor& a, const Tensor& b) {
    Tensor dx = dy.empty_like(dy.shape());
    kernels::larger_gradient(dy, a, b, dx);
    return dx;
  }
  std::array<Variable, 3> backward(const Variable& ddx) const {
    return {larger_gradient(ddx, a(), b()), Variable(), Variable()};
  }
};

struct Maximum : BinaryOp<kernels::maximum> {
  static constexpr std::string_view kName = "maximum";
  static constexpr bool kTakesWideNumber = false;  // a tie is one of rounded numbers
  SavedInput<0> a{};
  SavedInput<1> b{};
  auto saved() { return std::tie(a, b); }

  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = reduce(0, larger_gradient(dy, a(), b()));
    if (needs[1]) dx[1] = reduce(1, larger_gradient(dy, b(), a()));
    return dx;
  }
};

struct Minimum : BinaryOp<kernels::minimum> {
  static constexpr std::string_view kName = "minimum";
  static constexpr bool kTakesWideNumber = false;
  SavedInput<0> a{};
  SavedInput<1> b{};
  auto saved() { return std::tie(a, b); }

  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = reduce(0, larger_gradient(dy, b(), a()));
    if (needs[1]) dx[1] = reduce(1, larger_gradient(dy, a(), b()));
    return dx;
  }
};

struct Atan2 : BinaryOp<kernels::atan2> {
  static constexpr std::string_view kName = "atan2";
  SavedInput<0> y{};
  SavedInput<1> x{};
  auto saved() { return std::tie(y, x); }

  // d/dy = x / (x^2 + y^2), d/dx = -y / (x^2 + y^2); 0 where both are 0. The sum may be out of
  // range.
  std::array<Variable, 2> backward(const Variable& dz, Needs needs) const {
    std::array<Variable, 2> dx;
    const DType wide = compute_dtype(dz.dtype());
    const Variable x = this->x().to(wide), y = this->y().to(wide), norm = hypot(x, y);
    const Variable length = where(norm == 0, std::numeric_limits<double>::infinity(), norm);
    const Variable seed = dz.to(wide);
    if (needs[0]) dx[0] = reduce(0, seed * (x / length / length));
    if (needs[1]) dx[1] = reduce(1, -seed * (y / length / length));
    return dx;
  }
  std::array<Tensor, 2> kernel_backward(const Tensor& dz, Needs needs) const {
    return {gradient_by(kernels::atan2_backward, 0, dz, needs, y, x, 1.0),
            gradient_by(kernels::atan2_backward, 1, dz, needs, x, y, -1.0)};
  }
};

// y = a - b * q with q = trunc(a / b), which is constant wherever the derivative exists.
struct Fmod : BinaryOp<kernels::fmod> {
  static constexpr std::string_view kName = "fmod";
  SavedInput<0, /*for*/ 1> a{};
  SavedInput<1, /*for*/ 1> b{};
  auto saved() { return std::tie(a, b); }

  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = reduce(0, dy);
    if (needs[1]) {
      const Variable quotient = [&] {
        NoGrad constant;  // rounded, because a / b may round up to the next integer
        const DType wide = compute_dtype(dy.dtype());
        const Variable a = this->a().to(wide), b = this->b().to(wide);
        // An infinite a has an infinite quotient and no remainder.
        return tapegrad::where(isfinite(a), round((a - fmod(a, b)) / b), a / b);
      }();
      dx[1] = reduce(1, -dy * quotient);
    }
    return dx;
  }
};

struct WhereOp {
  static constexpr std::string_view kName = "where";
  SavedInput<0> condition{};
  Unbroadcast<3> reduce{};
  auto saved() { return std::tie(condition); }

  Tensor forward(const Tensor& condition, const Tensor& a, const Tensor& b) {
    Tensor y =
        a.empty_like(broadcast(kName, broadcast(kName, condition.shape(), a.shape()), b.shape()));
    write(condition, a, b, y);
    return y;
  }
  void write(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& y) {
    check_same_device(kName, condition, a, b);
    if (condition.dtype() != boolean)
      fail<DTypeError>(kName, ": the condition must be bool, not ", name(condition.dtype()));
    reduce.remember(y.shape(), condition, a, b);
    kernels::where(a, b, condition, y);
  }
  /// `where` converts a and b to one dtype; only the condition has another one.
  static bool fits(const Tensor& x, const Tensor& other) {
    return fits_result(x, other, /*any_dtype=*/other.dtype() == boolean);
  }
  std::array<Variable, 3> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 3> dx;
    if (needs[1]) dx[1] = reduce(1, where(condition(), dy, 0));
    if (needs[2]) dx[2] = reduce(2, where(condition(), 0, dy));
    return dx;
  }
};

struct LogicalNot {
  static constexpr std::string_view kName = "logical_not";
  static constexpr bool kDifferentiable = false;

  Tensor forward(const Tensor& x) const {
    Tensor y = Tensor::empty(x.shape(), boolean, x.device());
    kernels::logical_not(x, y);
    return y;
  }
};

/// Returns the common dtype, or int64 if one operand is an integer that the dtype cannot hold.
DType comparison_dtype(std::string_view op, const Operand& a, const Operand& b) {
  const DType dtype = common_dtype(op, a, b);
  return is_integer(dtype) && !(a.variable ? b : a).number.fits(dtype) ? i64 : dtype;
}

template <const kernels::Binary& kernel, Literal name>
Variable compare(const Operand& a, const Operand& b) {
  using Op = Predicate<kernel, name>;
  if (a.variable && b.variable) return run<Op>(a, b);
  return run_as<Op>(a, b, comparison_dtype(Op::kName, a, b));
}

template <typename Op>
Variable run_logical(const Operand& a, const Operand& b) {
  common_dtype(Op::kName, a, b);
  return run_as<Op>(a, b, boolean);
}

Variable product_of(const Operand& a, const Operand& b) {
  if (a.variable && a.variable == b.variable && is_float(a.variable->value(a.where).dtype()))
    return apply_over(MulBySelf{}, a.where, {input_of(a)});
  return run<Mul>(a, b);
}

template <typename Op>
Variable& run_in_place(Variable& a, const Operand& b) {
  if (b.variable && b.variable->value(b.where).dtype() == a.value(b.where).dtype()) [[likely]] {
    apply_in_place(Op{}, b.where, a, *b.variable);
    return a;
  }
  const ErrorLine line(b.where);
  const DType dtype = common_dtype(Op::kName, a, b);
  if (dtype != a.dtype()) {
    if (!is_float(a.dtype()))
      fail<DTypeError>(Op::kName, ": the result is ", name(dtype),
                       ", which does not fit in place into ", name(a.dtype()));
    // A wider float: the result is computed in its type and rounded once.
    const Variable result = run<Op>({a, b.where}, b);
    if (result.shape() != a.shape())
      fail<ShapeError>(Op::kName, ": ", result.shape(), " does not fit in place into ", a.shape());
    return copy_(a, result, b.where);
  }
  apply_in_place(Op{}, b.where, a, as_factor(Op::kName, b, dtype, a.device()));
  return a;
}

}  // namespace

Variable detail::larger_gradient(const Variable& dy, const Variable& a, const Variable& b) {
  return apply(LargerGradient{}, Where::current(), dy, a, b);
}

Variable add(Operand a, Operand b) { return run<Add>(a, b); }
Variable sub(Operand a, Operand b) { return run<Sub>(a, b); }
Variable mul(Operand a, Operand b) { return product_of(a, b); }
Variable div(Operand a, Operand b) { return run_float<Div>(a, b); }
Variable maximum(Operand a, Operand b) { return run<Maximum>(a, b); }
Variable minimum(Operand a, Operand b) { return run<Minimum>(a, b); }
Variable atan2(Operand y, Operand x) { return run_float<Atan2>(y, x); }
Variable fmod(Operand a, Operand b) { return run<Fmod>(a, b); }

namespace {

Variable power_of(const Operand& a, const Operand& b) {
  if (a.variable == nullptr || b.variable != nullptr) return run<Pow>(a, b);
  const DType dtype = promote(a.variable->value(a.where).dtype(), b.number);
  if (!is_float(dtype) && b.number.to<int64_t>() < 0)
    fail<ArgumentError>("pow: ", name(dtype), " to the negative power ", b.number);
  check_fits("pow", b.number, dtype);
  const Converted x(as_variable, "pow", a, dtype, a.variable->device());
  return apply_over(PowNumber{b.number}, a.where, {x});
}

}  // namespace

Variable pow(Operand a, Operand b) {
  Variable base, exponent;
  if (is_autocast_enabled()) [[unlikely]] {
    if (a.variable) a.variable = &(base = wide(*a.variable, a.where));
    if (b.variable) b.variable = &(exponent = wide(*b.variable, b.where));
  }
  return power_of(a, b);
}

Variable operator+(Operand a, Operand b) { return run<Add>(a, b); }
Variable operator-(Operand a, Operand b) { return run<Sub>(a, b); }
Variable operator*(Operand a, Operand b) { return product_of(a, b); }
Variable operator/(Operand a, Operand b) { return run_float<Div>(a, b); }
Variable operator-(Operand x) {
  if (!x.variable) fail<ArgumentError>("neg: the operand must be a variable");
  return neg(take(x), x.where);
}

Variable eq(const Operand& a, const Operand& b) { return compare<kernels::eq, "eq">(a, b); }
Variable ne(const Operand& a, const Operand& b) { return compare<kernels::ne, "ne">(a, b); }
Variable lt(const Operand& a, const Operand& b) { return compare<kernels::lt, "lt">(a, b); }
Variable le(const Operand& a, const Operand& b) { return compare<kernels::le, "le">(a, b); }
Variable gt(const Operand& a, const Operand& b) { return compare<kernels::gt, "gt">(a, b); }
Variable ge(const Operand& a, const Operand& b) { return compare<kernels::ge, "ge">(a, b); }
Variable operator==(const Operand& a, const Operand& b) { return eq(a, b); }
Variable operator!=(const Operand& a, const Operand& b) { return ne(a, b); }
Variable operator<(const Operand& a, const Operand& b) { return lt(a, b); }
Variable operator<=(const Operand& a, const Operand& b) { return le(a, b); }
Variable operator>(const Operand& a, const Operand& b) { return gt(a, b); }
Variable operator>=(const Operand& a, const Operand& b) { return ge(a, b); }

Variable logical_and(const Operand& a, const Operand& b) {
  return run_logical<Predicate<kernels::logical_and, "logical_and">>(a, b);
}
Variable logical_or(const Operand& a, const Operand& b) {
  return run_logical<Predicate<kernels::logical_or, "logical_or">>(a, b);
}
Variable logical_xor(const Operand& a, const Operand& b) {
  return run_logical<Predicate<kernels::ne, "logical_xor">>(a, b);
}
Variable logical_not(const Variable& x, Where where) { return apply(LogicalNot{}, where, x); }

Variable where(const Variable& condition, Operand a, Operand b) {
  const bool numbers = !a.variable && !b.variable;
  DType dtype = default_dtype();
  if (!numbers)
    dtype = common_dtype("where", a, b);
  else if (a.number.kind() != f64 && b.number.kind() != f64)
    dtype = promote(a.number.kind(), b.number.kind());
  const Device device = numbers ? condition.value(a.where).device() : device_of(a, b);
  const Converted x(as_variable, "where", a, dtype, device);
  const Converted y(as_variable, "where", b, dtype, device);
  return apply_over(WhereOp{}, a.where, {condition, x, y});
}

Variable& add_(Variable& a, const Operand& b) { return run_in_place<Add>(a, b); }
Variable& sub_(Variable& a, const Operand& b) { return run_in_place<Sub>(a, b); }
Variable& mul_(Variable& a, const Operand& b) { return run_in_place<Mul>(a, b); }
Variable& div_(Variable& a, const Operand& b) {
  const ErrorLine line(b.where);
  if (!is_float(a.dtype()))
    fail<DTypeError>("div: the quotient is a float, which does not fit in place into ",
                     name(a.dtype()));
  return run_in_place<Div>(a, b);
}
Variable& operator+=(Variable& a, const Operand& b) { return add_(a, b); }
Variable& operator-=(Variable& a, const Operand& b) { return sub_(a, b); }
Variable& operator*=(Variable& a, const Operand& b) { return mul_(a, b); }
Variable& operator/=(Variable& a, const Operand& b) { return div_(a, b); }

void catalog_binary(Catalog& catalog) {
  const OpTraits predicate{.max_order = 0};
  const OpTraits inplace{.inplace = true};
  const auto call = []<auto op>() {
    return [](const Arguments& a) { return op(a[0], a[1]); };
  };
  const auto call_in_place = []<Variable& (*op)(Variable&, const Operand&)>() {
    return [](const Arguments& a) {
      Variable target = a[0];
      return op(target, a[1]);
    };
  };
  catalog.add("add(input, other, alpha: number = 1)", "input + alpha other",
              [](const Arguments& a) {
                const Number alpha = a.number("alpha");
                return alpha.real() == 1 ? add(a[0], a[1]) : add(a[0], a[1], alpha);
              });
  catalog.add("sub(input, other, alpha: number = 1)", "input - alpha other",
              [](const Arguments& a) {
                const Number alpha = a.number("alpha");
                return alpha.real() == 1 ? sub(a[0], a[1]) : sub(a[0], a[1], alpha);
              });
  catalog.add("mul(input, other)", "input * other", call.operator()<mul>());
  catalog.add(
      "div(input, other, rounding_mode: str = none)", "input / other", [](const Arguments& a) {
        return a.has("rounding_mode") ? div(a[0], a[1], a.text("rounding_mode")) : div(a[0], a[1]);
      });
  catalog.add("pow(input, exponent)", "input ^ exponent", call.operator()<pow>());
  catalog.add("maximum(input, other)", "the larger", call.operator()<maximum>());
  catalog.add("minimum(input, other)", "the smaller", call.operator()<minimum>());
  catalog.add("atan2(input, other)", "the angle of (other, input)", call.operator()<atan2>());
  catalog.add("fmod(input, other)", "input - other * trunc(input / other)",
              call.operator()<fmod>());
  catalog.add("eq(input, other)", "input == other", call.operator()<eq>(), predicate);
  catalog.add("ne(input, other)", "input != other", call.operator()<ne>(), predicate);
  catalog.add("lt(input, other)", "input < other", call.operator()<lt>(), predicate);
  catalog.add("le(input, other)", "input <= other", call.operator()<le>(), predicate);
  catalog.add("gt(input, other)", "input > other", call.operator()<gt>(), predicate);
  catalog.add("ge(input, other)", "input >= other", call.operator()<ge>(), predicate);
  catalog.add("logical_and(input, other)", "both are not 0", call.operator()<logical_and>(),
              predicate);
  catalog.add("logical_or(input, other)", "one is not 0", call.operator()<logical_or>(), predicate);
  catalog.add("logical_xor(input, other)", "just one is not 0", call.operator()<logical_xor>(),
              predicate);
  catalog.add(
      "logical_not(input)", "input is 0", [](const Arguments& a) { return logical_not(a[0]); },
      predicate);
  catalog.add("where(condition, input, other)", "input where condition, else other",
              [](const Arguments& a) { return where(a[0], a[1], a[2]); });
  catalog.add("add_(input, other)", "input += other", call_in_place.operator()<add_>(), inplace);
  catalog.add("sub_(input, other)", "input -= other", call_in_place.operator()<sub_>(), inplace);
  catalog.add("mul_(input, other)", "input *= other", call_in_place.operator()<mul_>(), inplace);
  catalog.add("div_(input, other)", "input /= other", call_in_place.operator()<div_>(), inplace);
}

}  // namespace tapegrad
