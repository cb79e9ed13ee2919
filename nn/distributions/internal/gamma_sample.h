// Samples of the gamma distribution, with gradients.
#pragma once

#include "core/base/generator.h"
#include "core/tape/variable.h"

namespace tapegrad::distributions {

/// Draws from Gamma(shape, 1), differentiably with respect to the shape.
Variable rsample_gamma(const Variable& shape, RandomGenerator& generator);

}  // namespace tapegrad::distributions
