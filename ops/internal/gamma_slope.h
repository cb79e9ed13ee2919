// The derivative of samples of the gamma distribution.
#pragma once

#include "core/tape/variable.h"

namespace tapegrad::detail {

/// Returns dz/da of z ~ Gamma(a, 1) at a fixed probability. The gradient has no derivative.
Variable gamma_slope(const Variable& a, const Variable& z);

}  // namespace tapegrad::detail
