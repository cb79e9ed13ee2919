#include "ops/elementwise.h"

#include <cmath>
#include <numbers>

#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "ops/arithmetic.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/internal/kernels/pointwise.h"
#include "ops/internal/operands.h"
#include "ops/reduce.h"
#include "ops/sort.h"
#include "ops/view.h"

namespace tapegrad {

namespace kernels {
constinit Unary exp2{"exp2"}, signbit{"signbit"};
constinit Binary copysign{"copysign"}, logaddexp2{"logaddexp2"}, heaviside{"heaviside"};
constinit Binary fmax{"fmax"}, fmin{"fmin"}, ldexp{"ldexp"}, lcm{"lcm"};
constinit Binary nextafter{"nextafter"};
constinit decltype(logit) logit{"logit"};
constinit decltype(logit_backward) logit_backward{"logit_backward"};
}  // namespace kernels

using namespace detail;

namespace {

struct Exp2 : UnaryOp<kernels::exp2> {
  static constexpr std::string_view kName = "exp2";
  SavedOutput<> y{};
  auto saved() { return std::tie(y); }
  Variable backward(const Variable& dy) const { return dy * (y() * std::numbers::ln2); }
};

struct SignBit {
  static constexpr std::string_view kName = "signbit";
  static constexpr bool kDifferentiable = false;

  Tensor forward(const Tensor& x) const {
    Tensor y = Tensor::empty(x.shape(), boolean, x.device());
    kernels::signbit(x, y);
    return y;
  }
};

/// Op that computes |a| with the sign of b; the gradient at a = 0 is 0.
struct Copysign : BinaryOp<kernels::copysign> {
  static constexpr std::string_view kName = "copysign";
  static constexpr bool kTakesWideNumber = false;
  SavedInput<0, /*for*/ 0> a{};
  SavedInput<1, /*for*/ 0> b{};
  auto saved() { return std::tie(a, b); }

  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = reduce(0, dy * (sign(a()) * copysign(ones_like(b()), b())));
    return dx;
  }
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

struct Heaviside : BinaryOp<kernels::heaviside> {
  static constexpr std::string_view kName = "heaviside";
  static constexpr bool kTakesWideNumber = false;
  static constexpr bool kDifferentiable = false;
};

struct NextAfter : BinaryOp<kernels::nextafter> {
  static constexpr std::string_view kName = "nextafter";
  static constexpr bool kTakesWideNumber = false;
  static constexpr bool kDifferentiable = false;
};

struct Lcm : BinaryOp<kernels::lcm> {
  static constexpr std::string_view kName = "lcm";
  static constexpr bool kTakesWideNumber = false;
  static constexpr bool kDifferentiable = false;
};

struct Logit {
  static constexpr std::string_view kName = "logit";
  double low, high;
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  void write(const Tensor& x, Tensor& y) const { kernels::logit(x, low, high, y); }
  Variable backward(const Variable& dy) const {
    const Variable in = x(), outside = logical_or(lt(in, low), gt(in, high));
    const Variable p = where(outside, 0.5, in);
    return where(outside, 0, dy / (p * (1 - p)));
  }
  Tensor kernel_backward(const Tensor& dy) const {
    return by_kernel(kernels::logit_backward, dy, x, low, high);
  }
};

/// Op of fmax and fmin: the larger or smaller operand, or the number if one operand is NaN.
template <const kernels::Binary& kernel, Literal name>
struct ExtremeNumber : BinaryOp<kernel> {
  static constexpr std::string_view kName = name.text;
  static constexpr bool kTakesWideNumber = false;  // a tie is one of rounded numbers
  SavedInput<0> a{};
  SavedInput<1> b{};
  auto saved() { return std::tie(a, b); }

  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = this->reduce(0, part(dy, a(), b()));
    if (needs[1]) dx[1] = this->reduce(1, part(dy, b(), a()));
    return dx;
  }

 private:
  /// Returns the part of the gradient that the operand `own` receives.
  static Variable part(const Variable& dy, const Variable& own, const Variable& other) {
    const bool is_larger = &kernel == &kernels::fmax;
    const Variable chosen =
        is_larger ? larger_gradient(dy, own, other) : larger_gradient(dy, other, own);
    return where(logical_and(isnan(own), other == other), 0, chosen);
  }
};
using Fmax = ExtremeNumber<kernels::fmax, "fmax">;
using Fmin = ExtremeNumber<kernels::fmin, "fmin">;

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

Variable fmax(const Operand& a, const Operand& b) {
  return is_float(common_dtype("fmax", a, b)) ? run<Fmax>(a, b) : maximum(a, b);
}
Variable fmin(const Operand& a, const Operand& b) {
  return is_float(common_dtype("fmin", a, b)) ? run<Fmin>(a, b) : minimum(a, b);
}

Variable signbit(const Variable& x, Where where) {
  const CallLine line(where);
  const NoGrad off;
  if (!is_float(x.dtype())) return x.dtype() == boolean ? eq(x, 2) : lt(x, 0);
  return apply(SignBit{}, where, x);
}

Variable copysign(const Operand& x, const Operand& y) {
  const CallLine line(x.where);
  const auto [a, b] = Pair("copysign", x, y, float_dtype("copysign", x, y));
  return run<Copysign>({a, x.where}, {b, x.where});
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

Variable heaviside(const Variable& x, const Operand& values) {
  const CallLine line(values.where);
  const NoGrad off;
  const auto [a, b] = Pair("heaviside", x, values);
  if (is_float(a.dtype())) return run<Heaviside>({a, values.where}, {b, values.where});
  return where(eq(a, 0), b, gt(a, 0).to(a.dtype()));
}

Variable nextafter(const Variable& x, const Operand& other) {
  const CallLine line(other.where);
  const NoGrad off;
  const auto [a, b] = Pair("nextafter", x, other);
  return run_float<NextAfter>({a, other.where}, {b, other.where});
}

Variable lcm(const Operand& a, const Operand& b) { return run<Lcm>(a, b); }

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

Variable isinf(const Variable& x, Where where) {
  const CallLine line(where);
  if (!is_float(x.dtype())) return ne(x, x);
  return eq(abs(x), std::numeric_limits<double>::infinity());
}
Variable isposinf(const Variable& x, Where where) {
  return is_float(x.dtype()) ? eq({x, where}, {std::numeric_limits<double>::infinity(), where})
                             : ne({x, where}, {x, where});
}
Variable isneginf(const Variable& x, Where where) {
  return is_float(x.dtype()) ? eq({x, where}, {-std::numeric_limits<double>::infinity(), where})
                             : ne({x, where}, {x, where});
}

Variable isin(const Variable& x, const Variable& values, bool invert, Where where) {
  const CallLine line(where);
  const NoGrad off;
  const auto [a, b] = Pair("isin", x, values);
  if (b.numel() == 0) return invert ? eq(a, a) : ne(a, a);
  const Variable sorted = sort(flatten(b)).values;
  const Variable at = clamp(searchsorted(sorted, flatten(a)), 0, sorted.numel() - 1);
  const Variable found = reshape(eq(index_select(sorted, 0, at), flatten(a)), x.shape());
  return invert ? logical_not(found) : found;
}

void catalog_elementwise(Catalog& catalog) {
  using A = const Arguments&;
  const OpTraits flat{.max_order = 0};
  const auto call = []<Variable (*op)(const Operand&, const Operand&)>() {
    return [](A a) { return op(a[0], a[1]); };
  };
  const auto unary = []<Variable (*op)(const Variable&, Where)>() {
    return [](A a) { return op(a[0], Where::current()); };
  };
  catalog.add("fmax(input, other)", "the larger; a number instead of NaN", call.operator()<fmax>());
  catalog.add("fmin(input, other)", "the smaller; a number instead of NaN",
              call.operator()<fmin>());
  catalog.add("copysign(input, other)", "|input| with the sign of other",
              call.operator()<copysign>());
  catalog.add("signbit(input)", "the sign is negative", unary.operator()<signbit>(), flat);
  catalog.add("ldexp(input, other)", "input 2^other", call.operator()<ldexp>());
  catalog.add("float_power(input, exponent)", "input^exponent in float64",
              call.operator()<float_power>());
  catalog.add("logaddexp2(input, other)", "log2(2^input + 2^other)", call.operator()<logaddexp2>());
  catalog.add(
      "heaviside(input, values)", "0, values or 1 by the sign of input",
      [](A a) { return heaviside(a[0], a[1]); }, flat);
  catalog.add(
      "nextafter(input, other)", "the next number in the direction of other",
      [](A a) { return nextafter(a[0], a[1]); }, flat);
  catalog.add("lcm(input, other)", "the least common multiple", call.operator()<lcm>(), flat);
  catalog.add("exp2(input)", "2^x", unary.operator()<exp2>());
  catalog.add("deg2rad(input)", "x pi / 180", unary.operator()<deg2rad>());
  catalog.add("rad2deg(input)", "x 180 / pi", unary.operator()<rad2deg>());
  catalog.add("logit(input, eps: float = none)", "log(x / (1 - x))", [](A a) {
    return logit(a[0], a.has("eps") ? std::optional(a.real("eps")) : std::nullopt);
  });
  catalog.add("isinf(input)", "|x| = inf", unary.operator()<isinf>(), flat);
  catalog.add("isposinf(input)", "x = inf", unary.operator()<isposinf>(), flat);
  catalog.add("isneginf(input)", "x = -inf", unary.operator()<isneginf>(), flat);
  catalog.add(
      "isin(elements, test_elements, invert: bool = false)", "elements occurs in test_elements",
      [](A a) { return isin(a[0], a[1], a.flag("invert")); }, flat);
}

}  // namespace tapegrad
