// Functions that the distributions share.
#pragma once

#include "core/base/generator.h"
#include "ops/create.h"

namespace tapegrad::distributions {

inline TensorOptions like(const Variable& x) { return {.dtype = x.dtype(), .device = x.device()}; }
Shape joined(const Shape& a, const Shape& b);
/// The shape to which the parameters broadcast.
Shape batch_of(const Variable& a, const Variable& b);
/// Throws ArgumentError, naming the condition, unless it holds for all elements.
void require(std::string_view kind, std::string_view condition, const Variable& holds);
/// Uniform numbers in (0, 1), so that log(u) and log(-log(u)) are finite.
Variable open_uniform(const Shape& shape, const Variable& of, RandomGenerator& generator);
/// Draws from Gamma(shape, 1), differentiably in the shape.
Variable rsample_gamma(const Variable& shape, RandomGenerator& generator);

}  // namespace tapegrad::distributions
