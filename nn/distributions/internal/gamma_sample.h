// Samples of the gamma distribution and its cumulative distribution function, with gradients.
#pragma once

#include "core/base/generator.h"
#include "core/tape/variable.h"

namespace tapegrad::distributions {

/// Draws from Gamma(shape, 1), differentiably with respect to the shape.
Variable rsample_gamma(const Variable& shape, RandomGenerator& generator);
/// Returns the probability of values up to x >= 0 of Gamma(concentration, 1): the regularised lower
/// incomplete gamma function.
Variable gamma_cdf(const Variable& concentration, const Variable& x);

}  // namespace tapegrad::distributions
