#include "ops/gamma.h"

#include <cmath>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/arithmetic.h"
#include "ops/catalog.h"
#include "ops/internal/gamma_slope.h"
#include "ops/internal/kernels/special.h"
#include "ops/internal/operands.h"
#include "ops/special.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit Binary igamma{"igamma"}, igammac{"igammac"}, gamma_slope{"gamma_slope"}, zeta{"zeta"};

}  // namespace kernels

using namespace detail;

namespace {

struct GammaSlope {
  static constexpr std::string_view kName = "gamma_slope";

  Tensor forward(const Tensor& a, const Tensor& z) const {
    Tensor slope = z.empty_like();
    kernels::gamma_slope(a, z, slope);
    return slope;
  }
  [[noreturn]] std::array<Variable, 2> backward(const Variable&) const {
    fail<AutogradError>("Gamma: the concentration has no second derivative");
  }
};

/// P(a, x), or Q(a, x) = 1 - P(a, x), whose gradients have the opposite sign.
template <const kernels::Binary& kernel, Literal name, int sign>
struct IncompleteGamma {
  static constexpr std::string_view kName = name.text;
  SavedInput<0> a{};
  SavedInput<1> x{};
  auto saved() { return std::tie(a, x); }

  Tensor forward(const Tensor& a, const Tensor& x) const { return compute(kernel, a, x); }
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    const Variable density = exp(xlogy(a() - 1.0, x()) - x() - lgamma(a()));
    std::array<Variable, 2> dx;
    // The probability is constant along dx/da; it is 0 or 1 for every a at the ends.
    if (needs[0]) {
      const Variable is_inside = logical_and(x() > 0, density > 0);
      const Variable slope = gamma_slope(where(is_inside, a(), 1.0), where(is_inside, x(), 1.0));
      dx[0] = where(is_inside, -sign * dy * density * slope, 0.0);
    }
    if (needs[1]) dx[1] = sign * dy * where(x() == INFINITY, 0.0, density);
    return dx;
  }
};
using Igamma = IncompleteGamma<kernels::igamma, "igamma", 1>;
using Igammac = IncompleteGamma<kernels::igammac, "igammac", -1>;

struct Zeta {
  static constexpr std::string_view kName = "zeta";
  SavedInput<0> s{};
  SavedInput<1> q{};
  auto saved() { return std::tie(s, q); }

  Tensor forward(const Tensor& s, const Tensor& q) const { return compute(kernels::zeta, s, q); }
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    if (needs[0]) fail<AutogradError>("zeta: there is no gradient in the exponent s");
    return {Variable(), neg(dy) * s() * zeta(s() + 1.0, q())};
  }
};

/// Applies the op to operands of one float dtype and one shape.
template <typename Op>
Variable of_two(const Operand& a, const Operand& b) {
  const CallLine line(a.where);
  const Pair of(Op::kName, a, b, float_dtype(Op::kName, a, b));
  const Shape shape = broadcast(Op::kName, of.a.shape(), of.b.shape());
  return apply(Op{}, a.where, expand(of.a, shape), expand(of.b, shape));
}

}  // namespace

namespace detail {

Variable gamma_slope(const Variable& a, const Variable& z) { return apply(GammaSlope{}, {}, a, z); }

}  // namespace detail

Variable igamma(const Operand& a, const Operand& x) { return of_two<Igamma>(a, x); }
Variable igammac(const Operand& a, const Operand& x) { return of_two<Igammac>(a, x); }
Variable zeta(const Operand& s, const Operand& q) { return of_two<Zeta>(s, q); }

void catalog_gamma(Catalog& catalog) {
  using A = const Arguments&;
  catalog.add("igamma(input, other)", "the regularised lower incomplete gamma function",
              [](A a) { return igamma(a[0], a[1]); });
  catalog.add("igammac(input, other)", "the regularised upper incomplete gamma function",
              [](A a) { return igammac(a[0], a[1]); });
  catalog.add("zeta(input, other)", "the Hurwitz zeta function, sum of (other + k)^-input",
              [](A a) { return zeta(a[0], a[1]); });
}

}  // namespace tapegrad
