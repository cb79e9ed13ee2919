#include "ops/special.h"

#include <cmath>
#include <numbers>

#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/view.h"
#include "ops/arithmetic.h"
#include "ops/catalog.h"
#include "ops/internal/kernels/pointwise.h"
#include "ops/internal/kernels/special.h"
#include "ops/internal/operands.h"
#include "ops/settings.h"

namespace tapegrad {
namespace kernels {

constinit Unary sinh{"sinh"}, cosh{"cosh"}, asin{"asin"}, acos{"acos"}, atan{"atan"};
constinit Unary asinh{"asinh"}, acosh{"acosh"}, atanh{"atanh"};
constinit Unary erfc{"erfc"}, erfinv{"erfinv"}, lgamma{"lgamma"}, digamma{"digamma"}, sinc{"sinc"};
constinit Unary frac{"frac"};
constinit Binary asin_backward{"asin_backward"}, acos_backward{"acos_backward"};
constinit Binary atan_backward{"atan_backward"}, asinh_backward{"asinh_backward"};
constinit Binary acosh_backward{"acosh_backward"}, atanh_backward{"atanh_backward"};
constinit Binary erfc_backward{"erfc_backward"};
constinit decltype(polygamma) polygamma{"polygamma"};
constinit decltype(special_function) special_function{"special_function"};
constinit decltype(nan_to_num) nan_to_num{"nan_to_num"};

}  // namespace kernels

using namespace detail;

namespace {

/// An op whose derivative is a function slope(x). The gradient kernel computes dy * slope(x).
template <typename Base, Literal name, auto slope, const kernels::Binary* gradient = nullptr>
struct SmoothOp : Base {
  static constexpr std::string_view kName = name.text;
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }
  Variable backward(const Variable& dy) const {
    const DType dtype = dy.dtype(), wide = compute_dtype(dtype);
    if (wide == dtype) return dy * slope(x());
    return (dy.to(wide) * slope(x().to(wide))).to(dtype);  // a square may not fit in 16 bits
  }
  Tensor kernel_backward(const Tensor& dy) const requires(gradient != nullptr) {
    return by_kernel(*gradient, dy, x);
  }
};

template <const kernels::Unary& kernel, Literal name, auto slope,
          const kernels::Binary* gradient = nullptr>
using Smooth = SmoothOp<UnaryOp<kernel>, name, slope, gradient>;

/// Base of ops that share the kernel of special functions.
template <kernels::SpecialFunction function>
struct SpecialOp {
  static constexpr bool kChecksFirst = true;
  void write(const Tensor& x, Tensor& y) const {
    kernels::special_function(x, int64_t(function), y);
  }
};

template <kernels::SpecialFunction function, Literal name, auto slope>
using Special = SmoothOp<SpecialOp<function>, name, slope>;

// 1 - x^2 and x^2 - 1 as products, which are accurate near 1.
Variable asin_slope(const Variable& x) { return rsqrt((1 - x) * (1 + x)); }
Variable acos_slope(const Variable& x) { return neg(asin_slope(x)); }
Variable acosh_slope(const Variable& x) { return rsqrt(x - 1) * rsqrt(x + 1); }
Variable atanh_slope(const Variable& x) { return reciprocal((1 - x) * (1 + x)); }
Variable atan_slope(const Variable& x) { return reciprocal(square(x) + 1); }
Variable asinh_slope(const Variable& x) { return reciprocal(hypot(x, 1)); }
Variable sinh_slope(const Variable& x) { return cosh(x); }
Variable cosh_slope(const Variable& x) { return sinh(x); }
Variable erfc_slope(const Variable& x) {
  return exp(neg(square(x))) * (-2 * std::numbers::inv_sqrtpi);
}
Variable lgamma_slope(const Variable& x) { return digamma(x); }
Variable digamma_slope(const Variable& x) { return polygamma(1, x); }

/// (cos(pi x) - sinc(x)) / x, or its Taylor series where the difference cancels.
Variable sinc_slope(const Variable& x) {
  constexpr double kNear = 0.25, kPi = std::numbers::pi;
  constexpr int kTerms = 9;
  const Variable near = le(abs(x), kNear);
  const Variable small = where(near, x, 0), large = where(near, 1, x);
  const Variable square_of = square(small * kPi);
  double coefficients[kTerms];  // of (pi x)^(2 k): (-1)^(k+1) 2 (k + 1) / (2 k + 3)!
  double factorial = 1;
  for (int k = 0; k < kTerms; ++k) {
    factorial *= (2 * k + 2) * (2 * k + 3);
    coefficients[k] = (k % 2 == 0 ? -1 : 1) * 2 * (k + 1) / factorial;
  }
  Variable series = square_of * coefficients[kTerms - 1];
  for (int k = kTerms - 2; k > 0; --k) series = (series + coefficients[k]) * square_of;
  series = (series + coefficients[0]) * small * (kPi * kPi);
  return where(near, series, (cos(large * kPi) - sinc(large)) / large);
}

/// I1(x) / x, or its Taylor series near 0; times exp(-|x|) if is_scaled.
Variable i1_over_x(const Variable& x, bool is_scaled) {
  constexpr double kNear = 0.5;
  constexpr int kTerms = 10;
  const Variable near = le(abs(x), kNear);
  const Variable small = where(near, x, 0), large = where(near, 1, x);
  const Variable square_of = square(small) / 4;
  Variable series = square_of * (1.0 / (kTerms * (kTerms + 1)));
  for (int k = kTerms - 1; k > 0; --k)  // term k is term k - 1 times (x / 2)^2 / (k (k + 1))
    series = (series + 1) * square_of * (1.0 / (k * (k + 1)));
  series = (series + 1) / 2;
  if (is_scaled) return where(near, series * exp(neg(abs(small))), i1e(large) / large);
  return where(near, series, i1(large) / large);
}
Variable i0_slope(const Variable& x) { return i1(x); }
Variable i1_slope(const Variable& x) { return i0(x) - i1_over_x(x, false); }
Variable i0e_slope(const Variable& x) { return i1e(x) - sign(x) * i0e(x); }
Variable i1e_slope(const Variable& x) { return i0e(x) - sign(x) * i1e(x) - i1_over_x(x, true); }

Variable j0_slope(const Variable& x) { return neg(bessel_j1(x)); }
Variable j1_slope(const Variable& x) {
  const Variable at_zero = x == 0, at = where(at_zero, 1, x);
  return where(at_zero, 0.5, bessel_j0(x) - bessel_j1(at) / at);
}
Variable y0_slope(const Variable& x) { return neg(bessel_y1(x)); }
Variable y1_slope(const Variable& x) { return bessel_y0(x) - bessel_y1(x) / x; }
Variable k0_slope(const Variable& x) { return neg(bessel_k1(x)); }
Variable k1_slope(const Variable& x) { return neg(bessel_k0(x)) - bessel_k1(x) / x; }
Variable k0e_slope(const Variable& x) { return bessel_k0e(x) - bessel_k1e(x); }
Variable k1e_slope(const Variable& x) { return bessel_k1e(x) - bessel_k0e(x) - bessel_k1e(x) / x; }
Variable erfcx_slope(const Variable& x) { return 2 * x * erfcx(x) - 2 * std::numbers::inv_sqrtpi; }

Variable airy_ai_slope(const Variable& x);

using Sinh = Smooth<kernels::sinh, "sinh", sinh_slope>;
using Cosh = Smooth<kernels::cosh, "cosh", cosh_slope>;
using Asin = Smooth<kernels::asin, "asin", asin_slope, &kernels::asin_backward>;
using Acos = Smooth<kernels::acos, "acos", acos_slope, &kernels::acos_backward>;
using Atan = Smooth<kernels::atan, "atan", atan_slope, &kernels::atan_backward>;
using Asinh = Smooth<kernels::asinh, "asinh", asinh_slope, &kernels::asinh_backward>;
using Acosh = Smooth<kernels::acosh, "acosh", acosh_slope, &kernels::acosh_backward>;
using Atanh = Smooth<kernels::atanh, "atanh", atanh_slope, &kernels::atanh_backward>;
using Erfc = Smooth<kernels::erfc, "erfc", erfc_slope, &kernels::erfc_backward>;
using Lgamma = Smooth<kernels::lgamma, "lgamma", lgamma_slope>;
using Digamma = Smooth<kernels::digamma, "digamma", digamma_slope>;
using Sinc = Smooth<kernels::sinc, "sinc", sinc_slope>;
using I0 = Special<kernels::SpecialFunction::kI0, "i0", i0_slope>;
using I0e = Special<kernels::SpecialFunction::kI0e, "i0e", i0e_slope>;
using I1 = Special<kernels::SpecialFunction::kI1, "i1", i1_slope>;
using I1e = Special<kernels::SpecialFunction::kI1e, "i1e", i1e_slope>;
using J0 = Special<kernels::SpecialFunction::kJ0, "bessel_j0", j0_slope>;
using J1 = Special<kernels::SpecialFunction::kJ1, "bessel_j1", j1_slope>;
using Y0 = Special<kernels::SpecialFunction::kY0, "bessel_y0", y0_slope>;
using Y1 = Special<kernels::SpecialFunction::kY1, "bessel_y1", y1_slope>;
using K0 = Special<kernels::SpecialFunction::kK0, "bessel_k0", k0_slope>;
using K0e = Special<kernels::SpecialFunction::kK0e, "bessel_k0e", k0e_slope>;
using K1 = Special<kernels::SpecialFunction::kK1, "bessel_k1", k1_slope>;
using K1e = Special<kernels::SpecialFunction::kK1e, "bessel_k1e", k1e_slope>;
using Erfcx = Special<kernels::SpecialFunction::kErfcx, "erfcx", erfcx_slope>;
using AiryAi = Special<kernels::SpecialFunction::kAiryAi, "airy_ai", airy_ai_slope>;
// Ai'' is x Ai.
Variable airy_ai_curvature(const Variable& x) { return x * airy_ai(x); }
using AiryAiSlope =
    Special<kernels::SpecialFunction::kAiryAiSlope, "airy_ai_slope", airy_ai_curvature>;
Variable airy_ai_slope(const Variable& x) { return apply(AiryAiSlope{}, Where::current(), x); }

struct Erfinv : UnaryOp<kernels::erfinv> {
  static constexpr std::string_view kName = "erfinv";
  SavedOutput<> y{};
  auto saved() { return std::tie(y); }
  Variable backward(const Variable& dy) const {
    return dy * (exp(square(y())) * (0.5 / std::numbers::inv_sqrtpi));
  }
};

struct Polygamma {
  static constexpr std::string_view kName = "polygamma";
  int64_t n;
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  void write(const Tensor& x, Tensor& y) const { kernels::polygamma(x, n, y); }
  Variable backward(const Variable& dy) const { return dy * polygamma(n + 1, x()); }
};

struct NanToNum {
  static constexpr std::string_view kName = "nan_to_num";
  double nan, posinf, neginf;
  SavedInput<0> x{};
  auto saved() { return std::tie(x); }

  void write(const Tensor& x, Tensor& y) const { kernels::nan_to_num(x, nan, posinf, neginf, y); }
  Variable backward(const Variable& dy) const { return where(isfinite(x()), dy, 0); }
};

struct Frac : UnaryOp<kernels::frac> {
  static constexpr std::string_view kName = "frac";
  Variable backward(const Variable& dy) const { return dy; }
};

}  // namespace

Variable sinh(Variable x, Where where) { return of_wide_float<Sinh>(std::move(x), where); }
Variable cosh(Variable x, Where where) { return of_wide_float<Cosh>(std::move(x), where); }
Variable asin(Variable x, Where where) { return of_wide_float<Asin>(std::move(x), where); }
Variable acos(Variable x, Where where) { return of_wide_float<Acos>(std::move(x), where); }
Variable atan(Variable x, Where where) { return of_float<Atan>(std::move(x), where); }
Variable asinh(Variable x, Where where) { return of_float<Asinh>(std::move(x), where); }
Variable acosh(Variable x, Where where) { return of_float<Acosh>(std::move(x), where); }
Variable atanh(Variable x, Where where) { return of_float<Atanh>(std::move(x), where); }
Variable erfc(Variable x, Where where) { return of_float<Erfc>(std::move(x), where); }
Variable erfinv(Variable x, Where where) { return of_wide_float<Erfinv>(std::move(x), where); }
Variable lgamma(Variable x, Where where) { return of_float<Lgamma>(std::move(x), where); }
Variable digamma(Variable x, Where where) { return of_float<Digamma>(std::move(x), where); }
Variable sinc(Variable x, Where where) { return of_float<Sinc>(std::move(x), where); }

Variable i0(Variable x, Where where) { return of_float<I0>(std::move(x), where); }
Variable i0e(Variable x, Where where) { return of_float<I0e>(std::move(x), where); }
Variable i1(Variable x, Where where) { return of_float<I1>(std::move(x), where); }
Variable i1e(Variable x, Where where) { return of_float<I1e>(std::move(x), where); }
Variable bessel_j0(Variable x, Where where) { return of_float<J0>(std::move(x), where); }
Variable bessel_j1(Variable x, Where where) { return of_float<J1>(std::move(x), where); }
Variable bessel_y0(Variable x, Where where) { return of_float<Y0>(std::move(x), where); }
Variable bessel_y1(Variable x, Where where) { return of_float<Y1>(std::move(x), where); }
Variable bessel_k0(Variable x, Where where) { return of_float<K0>(std::move(x), where); }
Variable bessel_k0e(Variable x, Where where) { return of_float<K0e>(std::move(x), where); }
Variable bessel_k1(Variable x, Where where) { return of_float<K1>(std::move(x), where); }
Variable bessel_k1e(Variable x, Where where) { return of_float<K1e>(std::move(x), where); }
Variable erfcx(Variable x, Where where) { return of_float<Erfcx>(std::move(x), where); }
Variable airy_ai(Variable x, Where where) { return of_float<AiryAi>(std::move(x), where); }

Variable polygamma(int64_t n, Variable x, Where where) {
  const ErrorLine line(where);
  if (n < 0 || n > 170) fail<ArgumentError>("polygamma: n is in [0, 170], not ", n);
  if (n == 0) return digamma(std::move(x), where);
  return apply_over(Polygamma{n}, where, {as_float(std::move(x), where)});
}

Variable frac(const Variable& x, Where where) {
  return is_float(x.dtype()) ? apply(Frac{}, where, x) : sub({x, where}, {x, where});
}

Variable nan_to_num(Variable x, NanToNumOptions options, Where where) {
  if (!is_float(x.dtype())) return clone(x, where);
  const double most = finfo(x.dtype()).max;
  const double posinf = options.posinf.value_or(most), neginf = options.neginf.value_or(-most);
  return apply_over(NanToNum{options.nan, posinf, neginf}, where, {std::move(x)});
}

void catalog_special(Catalog& catalog) {
  using A = const Arguments&;
  const auto call = []<auto op>() {
    return [](A a) { return op(a[0], Where::current()); };
  };
  catalog.add("sinh(input)", "(exp(x) - exp(-x)) / 2", call.operator()<sinh>());
  catalog.add("cosh(input)", "(exp(x) + exp(-x)) / 2", call.operator()<cosh>());
  catalog.add("asin(input)", "the angle in [-pi/2, pi/2] of that sine", call.operator()<asin>());
  catalog.add("acos(input)", "the angle in [0, pi] of that cosine", call.operator()<acos>());
  catalog.add("atan(input)", "the angle in (-pi/2, pi/2) of that tangent", call.operator()<atan>());
  catalog.add("asinh(input)", "log(x + sqrt(x^2 + 1))", call.operator()<asinh>());
  catalog.add("acosh(input)", "log(x + sqrt(x^2 - 1))", call.operator()<acosh>());
  catalog.add("atanh(input)", "log((1 + x) / (1 - x)) / 2", call.operator()<atanh>());
  catalog.add("erfc(input)", "1 - erf(x)", call.operator()<erfc>());
  catalog.add("erfinv(input)", "y with erf(y) = x", call.operator()<erfinv>());
  catalog.add("lgamma(input)", "log|gamma(x)|", call.operator()<lgamma>());
  catalog.add("digamma(input)", "the derivative of lgamma", call.operator()<digamma>());
  catalog.add("polygamma(input, n: int)", "the n-th derivative of digamma",
              [](A a) { return polygamma(a.integer("n"), a[0]); });
  catalog.add("sinc(input)", "sin(pi x) / (pi x)", call.operator()<sinc>());
  catalog.add("i0(input)", "the modified Bessel function of order 0", call.operator()<i0>());
  catalog.add("i0e(input)", "exp(-|x|) i0(x)", call.operator()<i0e>());
  catalog.add("i1(input)", "the modified Bessel function of order 1", call.operator()<i1>());
  catalog.add("i1e(input)", "exp(-|x|) i1(x)", call.operator()<i1e>());
  catalog.add("bessel_j0(input)", "the Bessel function of the first kind, of order 0",
              call.operator()<bessel_j0>());
  catalog.add("bessel_j1(input)", "the Bessel function of the first kind, of order 1",
              call.operator()<bessel_j1>());
  catalog.add("bessel_y0(input)", "the Bessel function of the second kind, of order 0",
              call.operator()<bessel_y0>());
  catalog.add("bessel_y1(input)", "the Bessel function of the second kind, of order 1",
              call.operator()<bessel_y1>());
  catalog.add("bessel_k0(input)", "the modified Bessel function of the second kind, of order 0",
              call.operator()<bessel_k0>());
  catalog.add("bessel_k0e(input)", "exp(x) bessel_k0(x)", call.operator()<bessel_k0e>());
  catalog.add("bessel_k1(input)", "the modified Bessel function of the second kind, of order 1",
              call.operator()<bessel_k1>());
  catalog.add("bessel_k1e(input)", "exp(x) bessel_k1(x)", call.operator()<bessel_k1e>());
  catalog.add("erfcx(input)", "exp(x^2) erfc(x)", call.operator()<erfcx>());
  catalog.add("airy_ai(input)", "the Airy function Ai", call.operator()<airy_ai>());
  catalog.add("frac(input)", "x - trunc(x)", call.operator()<frac>());
  catalog.add("nan_to_num(input, nan: float = 0.0, posinf: float = none, neginf: float = none)",
              "numbers in place of NaN and infinities", [](A a) {
                NanToNumOptions options{.nan = a.real("nan")};
                if (a.has("posinf")) options.posinf = a.real("posinf");
                if (a.has("neginf")) options.neginf = a.real("neginf");
                return nan_to_num(a[0], options);
              });
}

}  // namespace tapegrad
