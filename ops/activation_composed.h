// Activation functions composed of other ops. Floats only.
#pragma once

#include "core/base/generator.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// Returns x where x > 0, else weight * x. weight has one element, or one element per channel
/// (dimension 1).
Variable prelu(const Variable& x, const Variable& weight, Where where = Where::current());
/// Returns x where x > 0, else alpha * (exp(x / alpha) - 1). Throws ArgumentError for alpha = 0.
Variable celu(const Variable& x, double alpha = 1.0, Where where = Where::current());
/// Returns x where x > threshold, else value; NaN stays NaN.
Variable threshold(const Variable& x, double threshold, double value,
                   Where where = Where::current());
/// Moves x towards 0 by lambd; 0 where |x| <= lambd. Throws ArgumentError for a negative lambd.
Variable softshrink(const Variable& x, double lambd = 0.5, Where where = Where::current());
/// Returns x where |x| > lambd, else 0.
Variable hardshrink(const Variable& x, double lambd = 0.5, Where where = Where::current());
Variable tanhshrink(const Variable& x, Where where = Where::current());  // x - tanh(x)
Variable softsign(const Variable& x, Where where = Where::current());    // x / (1 + |x|)
/// Returns a * sigmoid(b) for the two halves a and b of x along dim. Throws ShapeError if the size
/// is odd.
Variable glu(const Variable& x, int dim = -1, Where where = Where::current());

/// Returns x for x >= 0, else x times a slope. In training the slope of each element is drawn from
/// [lower, upper); otherwise it is the mean of both bounds.
Variable rrelu(const Variable& x, double lower = 1.0 / 8, double upper = 1.0 / 3,
               bool training = false, RandomGenerator& generator = default_generator(),
               Where where = Where::current());

}  // namespace tapegrad
