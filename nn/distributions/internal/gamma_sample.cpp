#include "nn/distributions/internal/gamma_sample.h"

#include <limits>

#include "core/tape/op_impl.h"
#include "core/tape/recording.h"
#include "nn/distributions/internal/distribution_parts.h"
#include "ops/arithmetic.h"
#include "ops/extremes.h"
#include "ops/internal/gamma_slope.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/special.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad::distributions {
namespace {

/// A sample z of Gamma(a, 1), whose gradient in a is the slope.
struct GammaSample {
  static constexpr std::string_view kName = "gamma_sample";
  Tensor sample;
  SavedInput<0> a{};
  SavedOutput<> z{};
  auto saved() { return std::tie(a, z); }

  Tensor forward(const Tensor&) { return std::move(sample); }
  Variable backward(const Variable& dz) const { return dz * detail::gamma_slope(a(), z()); }
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

}  // namespace tapegrad::distributions
