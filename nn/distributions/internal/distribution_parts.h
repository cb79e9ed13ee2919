// Functions that the distributions share.
#pragma once

#include <cmath>
#include <functional>
#include <initializer_list>
#include <numbers>
#include <string_view>

#include "core/base/generator.h"
#include "nn/distributions/distribution.h"
#include "ops/binary.h"
#include "ops/create.h"

namespace tapegrad::distributions {

inline constexpr double kEuler = std::numbers::egamma, kPi = std::numbers::pi;
inline const double kLogTwoPi = std::log(2 * kPi);

inline TensorOptions like(const Variable& x) { return {.dtype = x.dtype(), .device = x.device()}; }
Shape joined(const Shape& a, const Shape& b);
/// Returns the shape to which the parameters broadcast.
Shape batch_of(const Variable& a, const Variable& b);
/// Returns the distance of 1 to the next number.
double epsilon(DType dtype);
/// Returns the probabilities, limited to [epsilon, 1 - epsilon].
Variable clamp_probs(const Variable& probs);
/// Throws ArgumentError, naming the condition and the values of its first false element, unless
/// `holds` is true for all elements.
void require(std::string_view kind, std::string_view condition, const Variable& holds,
             std::initializer_list<Variable> values);
/// Throws ArgumentError for a scale that is not positive and for a location that is NaN.
void require_location_scale(std::string_view kind, const Variable& loc, const Variable& scale);
/// Throws ArgumentError unless either the probabilities or the logits are set.
void require_one(std::string_view kind, const Odds& odds);
/// Returns the log density f(value), and -inf where `outside` is true. For these elements f gets
/// `point`, a value in the support, so that the gradients of the parameters are 0 and not NaN.
template <typename F>
Variable log_density(const Variable& value, const Variable& outside, Operand point, F f) {
  return where(outside, -INFINITY, f(where(outside, point, value)));
}
/// Multiplies counts by logarithms of probabilities, which may be -inf where the count is 0.
Variable count_times(const Variable& counts, const Variable& logs);
/// Returns whether an element is finite and not a whole number.
Variable has_fraction(const Variable& value);
/// Returns the probabilities, with NaN in place of those outside of [0, 1].
Variable checked_probability(const Variable& probability);
/// Returns uniform numbers in (0, 1), so that log(u) and log(-log(u)) are finite.
Variable open_uniform(const Shape& shape, const Variable& of, RandomGenerator& generator);
/// Candidates of a distribution, and which of them are taken.
struct Candidates {
  Variable values, is_taken;
};
/// Draws by rejection. draw() makes candidates of the shape; at most a share `refused` of them is
/// not taken. Always makes as many rounds as suffice in nearly all cases, so that a captured step
/// need not be recorded again for another number of rounds. Throws ArgumentError if 100 rounds do
/// not suffice, because a parameter is not finite, or too large.
Variable draw_by_rejection(const Shape& shape, double refused,
                           const std::function<Candidates()>& draw);
/// Returns the sum over the last n dimensions.
Variable sum_last(const Variable& x, int n);
/// Returns vectors [..., 2] of the elements of a and of b.
Variable pair_of(const Variable& a, const Variable& b);

}  // namespace tapegrad::distributions
