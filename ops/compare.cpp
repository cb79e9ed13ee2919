#include "ops/compare.h"

#include <cmath>
#include <limits>

#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/internal/kernels/pointwise.h"
#include "ops/internal/operands.h"
#include "ops/reduce.h"
#include "ops/sort.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {

namespace kernels {

constinit Unary signbit{"signbit"};
constinit Binary copysign{"copysign"}, heaviside{"heaviside"}, nextafter{"nextafter"};
constinit Binary fmax{"fmax"}, fmin{"fmin"};

}  // namespace kernels

using namespace detail;

namespace {

CloseOptions close_options(const Arguments& a) {
  return {a.real("rtol"), a.real("atol"), a.flag("equal_nan")};
}

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

struct Heaviside : BinaryOp<kernels::heaviside> {
  static constexpr std::string_view kName = "heaviside";
  static constexpr bool kTakesWideNumber = false;
  static constexpr bool kDifferentiable = false;
};

struct NextAfter : BinaryOp<kernels::nextafter> {
  static constexpr std::string_view kName = "nextafter";
  static constexpr bool kTakesWideNumber = false;

  /// The result moves with the first operand, as in PyTorch.
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    std::array<Variable, 2> dx;
    if (needs[0]) dx[0] = reduce(0, dy);
    if (needs[1])
      dx[1] = reduce(1, Variable(Tensor::full(dy.shape(), 0.0, dy.dtype(), dy.device())));
    return dx;
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

}  // namespace

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

Variable heaviside(const Variable& x, const Operand& values) {
  const CallLine line(values.where);
  const NoGrad off;
  const auto [a, b] = Pair("heaviside", x, values);
  if (is_float(a.dtype())) return run<Heaviside>({a, values.where}, {b, values.where});
  return where(eq(a, 0), b, gt(a, 0).to(a.dtype()));
}

Variable nextafter(const Variable& x, const Operand& other) {
  const CallLine line(other.where);
  const auto [a, b] = Pair("nextafter", x, other);
  return run_float<NextAfter>({a, other.where}, {b, other.where});
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

void catalog_compare(Catalog& catalog) {
  using A = const Arguments&;
  const OpTraits flat{.max_order = 0};
  const auto call = []<auto op>() {
    return [](A a) { return op(a[0], a[1]); };
  };
  const auto unary = []<Variable (*op)(const Variable&, Where)>() {
    return [](A a) { return op(a[0], Where::current()); };
  };
  catalog.add(
      "isclose(input, other, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = false)",
      "|input - other| <= atol + rtol |other|",
      [](A a) { return isclose(a[0], a[1], close_options(a)); }, flat);
  catalog.add(
      "allclose(input, other, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = false)",
      "all are close", [](A a) { return all(isclose(a[0], a[1], close_options(a))); }, flat);
  catalog.add("fmax(input, other)", "the larger; a number instead of NaN", call.operator()<fmax>());
  catalog.add("fmin(input, other)", "the smaller; a number instead of NaN",
              call.operator()<fmin>());
  catalog.add("copysign(input, other)", "|input| with the sign of other",
              call.operator()<copysign>());
  catalog.add("signbit(input)", "the sign is negative", unary.operator()<signbit>(), flat);
  catalog.add(
      "heaviside(input, values)", "0, values or 1 by the sign of input",
      [](A a) { return heaviside(a[0], a[1]); }, flat);
  catalog.add("nextafter(input, other)", "the next number in the direction of other",
              [](A a) { return nextafter(a[0], a[1]); });
  catalog.add("isinf(input)", "|x| = inf", unary.operator()<isinf>(), flat);
  catalog.add("isposinf(input)", "x = inf", unary.operator()<isposinf>(), flat);
  catalog.add("isneginf(input)", "x = -inf", unary.operator()<isneginf>(), flat);
  catalog.add(
      "isin(elements, test_elements, invert: bool = false)", "elements occurs in test_elements",
      [](A a) { return isin(a[0], a[1], a.flag("invert")); }, flat);
}

}  // namespace tapegrad
