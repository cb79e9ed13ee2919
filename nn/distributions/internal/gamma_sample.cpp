#include "nn/distributions/internal/gamma_sample.h"

#include <limits>

#include "core/base/error.h"
#include "core/tape/op_impl.h"
#include "core/tape/recording.h"
#include "nn/distributions/internal/distribution_parts.h"
#include "ops/arithmetic.h"
#include "ops/extremes.h"
#include "ops/internal/kernels/pointwise.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/special.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::distributions {
namespace {

/// dz/da of z ~ Gamma(a, 1) at a fixed probability.
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

Variable slope_of(const Variable& a, const Variable& z) { return apply(GammaSlope{}, {}, a, z); }

/// A sample z of Gamma(a, 1), whose gradient in a is the slope.
struct GammaSample {
  static constexpr std::string_view kName = "gamma_sample";
  Tensor sample;
  SavedInput<0> a{};
  SavedOutput<> z{};
  auto saved() { return std::tie(a, z); }

  Tensor forward(const Tensor&) { return std::move(sample); }
  Variable backward(const Variable& dz) const { return dz * slope_of(a(), z()); }
};

/// The probability P(a, x) of values up to x of Gamma(a, 1).
struct GammaCdf {
  static constexpr std::string_view kName = "gamma_cdf";
  SavedInput<0> a{};
  SavedInput<1> x{};
  auto saved() { return std::tie(a, x); }

  Tensor forward(const Tensor& a, const Tensor& x) const {
    Tensor y = x.empty_like();
    kernels::gamma_cdf(a, x, y);
    return y;
  }
  std::array<Variable, 2> backward(const Variable& dy, Needs needs) const {
    const Variable density = exp(xlogy(a() - 1.0, x()) - x() - lgamma(a()));
    std::array<Variable, 2> gradients;
    // The probability is constant along dx/da; it is 0 or 1 for every a at the ends.
    if (needs[0]) {
      const Variable is_inside = logical_and(x() > 0, density > 0);
      const Variable at = where(is_inside, x(), 1.0);
      gradients[0] = where(is_inside, -dy * density * slope_of(a(), at), 0.0);
    }
    if (needs[1]) gradients[1] = dy * where(x() == INFINITY, 0.0, density);
    return gradients;
  }
};

/// Draws from Gamma(shape, 1) by Marsaglia and Tsang 2000. A shape below 1 uses shape + 1 and a
/// power of a uniform number.
Variable sample_gamma(const Variable& shape, RandomGenerator& generator) {
  const Variable one_more = lt(shape, 1.0).to(shape.dtype());
  const Variable d = shape + one_more - 1.0 / 3, c = 1 / sqrt(9.0 * d);
  const Variable result = draw_by_rejection(shape.shape(), /*refused=*/0.05, [&]() -> Candidates {
    const Variable x = randn(shape.shape(), like(shape), generator);
    const Variable u = rand(shape.shape(), like(shape), generator);
    const Variable root = clamp(1.0 + c * x, {.min = 0.0}), v = root * root * root;
    return {d * v, logical_and(gt(v, 0.0), lt(log(u), 0.5 * x * x + d - d * v + d * log(v)))};
  });
  // 1 - u is never 0.
  const Variable u = 1.0 - rand(shape.shape(), like(shape), generator);
  return where(lt(shape, 1.0), result * pow(u, 1.0 / shape), result);
}

}  // namespace

Variable rsample_gamma(const Variable& shape, RandomGenerator& generator) {
  Variable z;
  {
    const NoGrad no_grad;
    const double smallest = shape.dtype() == f64 ? std::numeric_limits<double>::min()
                                                 : std::numeric_limits<float>::min();
    z = clamp(sample_gamma(shape.detach(), generator), {.min = smallest});
  }
  return apply(GammaSample{z.value()}, {}, shape);
}

Variable gamma_cdf(const Variable& concentration, const Variable& x) {
  const Shape shape = batch_of(concentration, x);
  const DType dtype = concentration.dtype();
  return apply(GammaCdf{}, {}, expand(concentration, shape).contiguous(),
               expand(x.to(dtype), shape).contiguous());
}

}  // namespace tapegrad::distributions
