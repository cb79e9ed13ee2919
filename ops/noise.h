// Further random distributions and variants of dropout. Numbers come from a RandomGenerator as in
// ops/random.h: equal seeds give equal numbers for any number of threads.
#pragma once

#include "core/base/generator.h"
#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// Returns normal numbers with elementwise mean and standard deviation; mean and std broadcast. No
/// gradient. Throws ArgumentError for a negative std.
Variable normal(const Variable& mean, const Variable& std,
                RandomGenerator& generator = default_generator(), Where where = Where::current());

/// Returns uniform numbers in [low, high) with elementwise bounds; low and high broadcast. Gives
/// low where the bounds are equal. No gradient. Throws ArgumentError where low > high.
Variable uniform(const Variable& low, const Variable& high,
                 RandomGenerator& generator = default_generator(), Where where = Where::current());

/// Overwrites x with exponentially distributed numbers of mean 1 / lambd. In float32 and float64 no
/// number is 0. The previous value of x receives no gradient. Throws ArgumentError unless lambd >
/// 0.
Variable& exponential_(Variable& x, double lambd = 1.0,
                       RandomGenerator& generator = default_generator(),
                       Where where = Where::current());

/// Returns Poisson-distributed numbers with elementwise rate, in the dtype of rate. No gradient.
/// Throws ArgumentError for a rate that is negative or not finite.
Variable poisson(const Variable& rate, RandomGenerator& generator = default_generator(),
                 Where where = Where::current());

/// Draws num_samples class ids (int64) for each row of weights [n, classes] or [classes], with or
/// without replacement. A row need not sum to 1. Throws ArgumentError for a weight that is negative
/// or not finite, and for a row with too few positive weights.
Variable multinomial(const Variable& weights, int64_t num_samples, bool replacement = false,
                     RandomGenerator& generator = default_generator(),
                     Where where = Where::current());

/// Applies dropout to whole channels: each channel is 0 with probability p, else divided by 1 - p.
/// dropout1d takes [n, c, l] or [c, l], dropout2d [n, c, h, w] or [c, h, w], dropout3d
/// [n, c, d, h, w] or [c, d, h, w]. Returns x itself if not training.
Variable dropout1d(const Variable& x, double p = 0.5, bool training = true,
                   RandomGenerator& generator = default_generator(),
                   Where where = Where::current());
Variable dropout2d(const Variable& x, double p = 0.5, bool training = true,
                   RandomGenerator& generator = default_generator(),
                   Where where = Where::current());
Variable dropout3d(const Variable& x, double p = 0.5, bool training = true,
                   RandomGenerator& generator = default_generator(),
                   Where where = Where::current());

/// Applies dropout for selu (Klambauer et al. 2017): dropped elements become selu's negative limit
/// -1.7581, and the result is scaled and shifted to preserve mean 0 and variance 1. p = 1 gives
/// zeros. feature_alpha_dropout drops whole channels of [n, c, ...].
Variable alpha_dropout(const Variable& x, double p = 0.5, bool training = true,
                       RandomGenerator& generator = default_generator(),
                       Where where = Where::current());
Variable feature_alpha_dropout(const Variable& x, double p = 0.5, bool training = true,
                               RandomGenerator& generator = default_generator(),
                               Where where = Where::current());

struct GumbelSoftmaxOptions {
  double tau = 1.0;   // temperature
  bool hard = false;  // returns one-hot values with the gradient of the soft ones
  int dim = -1;
};
/// Returns softmax((logits + g) / tau) with Gumbel noise g: a differentiable sample of a class
/// (Jang et al. 2017).
Variable gumbel_softmax(const Variable& logits, GumbelSoftmaxOptions options = {},
                        RandomGenerator& generator = default_generator(),
                        Where where = Where::current());

/// Overload with options by position: gumbel_softmax(logits, 0.5, true).
template <std::floating_point T>
Variable gumbel_softmax(const Variable& logits, T tau, bool hard = false, int dim = -1,
                        Where where = Where::current()) {
  return gumbel_softmax(logits, GumbelSoftmaxOptions{double(tau), hard, dim}, default_generator(),
                        where);
}

namespace kernels {

// y, rate and weights are contiguous.

/// Computes y = -log(u) / lambd, where u in (0, 1] is made of random word i, or of words 2i and 2i
/// + 1 for float64.
extern Kernel<void(Tensor& y, double lambd, RandomState state)> exponential;
/// Each element i has its own random stream, selected by the upper half of the counter.
extern Kernel<void(const Tensor& rate, RandomState state, Tensor& y)> poisson;
/// weights is [rows, classes]; y is int64 [rows, samples]. Sample k of row r uses random number r
/// samples + k.
extern Kernel<void(const Tensor& weights, bool replacement, RandomState state, Tensor& y)>
    multinomial;

}  // namespace kernels
}  // namespace tapegrad
