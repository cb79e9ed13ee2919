// More distributions, and layers' noise. As in ops/random.h every draw takes its numbers from a
// Generator, and equal seeds give equal numbers for any number of threads.
#pragma once

#include "core/base/generator.h"
#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// Normal numbers, each with the mean and the standard deviation at its place; the two broadcast.
/// No gradient. ArgumentError for a negative std.
Variable normal(const Variable& mean, const Variable& std,
                Generator& generator = default_generator(), Where where = Where::current());

/// Uniform numbers in [low, high), each with the bounds at its place; the two broadcast. low where
/// they are equal. No gradient. ArgumentError where low > high.
Variable uniform(const Variable& low, const Variable& high,
                 Generator& generator = default_generator(), Where where = Where::current());

/// Overwritten with exponentially distributed numbers of mean 1 / lambd, none of them 0 in float32
/// and float64. What x was receives no gradient. ArgumentError unless lambd > 0.
Variable& exponential_(Variable& x, double lambd = 1.0, Generator& generator = default_generator());

/// Whole numbers, Poisson distributed with the rate that each element gives. No gradient.
/// ArgumentError for a rate that is negative or not finite.
Variable poisson(const Variable& rate, Generator& generator = default_generator(),
                 Where where = Where::current());

/// num_samples class ids (int64) for each row of weights [n, classes] or [classes], which need not
/// sum to 1: with replacement, or each at most once. ArgumentError for a weight that is negative or
/// not finite, and for a row with too few positive ones.
Variable multinomial(const Variable& weights, int64_t num_samples, bool replacement = false,
                     Generator& generator = default_generator(), Where where = Where::current());

/// Whole channels become 0 with probability p, the others are divided by 1 - p: of signals
/// [n, c, l] or [c, l], images [n, c, h, w] or [c, h, w], volumes [n, c, d, h, w] or [c, d, h, w].
/// x itself unless training.
Variable dropout1d(const Variable& x, double p = 0.5, bool training = true,
                   Generator& generator = default_generator(), Where where = Where::current());
Variable dropout2d(const Variable& x, double p = 0.5, bool training = true,
                   Generator& generator = default_generator(), Where where = Where::current());
Variable dropout3d(const Variable& x, double p = 0.5, bool training = true,
                   Generator& generator = default_generator(), Where where = Where::current());

/// For selu: what is dropped becomes selu's limit -1.7581, and all is scaled and shifted so that
/// mean 0 and variance 1 stay (Klambauer et al. 2017). p = 1 gives zeros. The second drops whole
/// channels of [n, c, ...].
Variable alpha_dropout(const Variable& x, double p = 0.5, bool training = true,
                       Generator& generator = default_generator(), Where where = Where::current());
Variable feature_alpha_dropout(const Variable& x, double p = 0.5, bool training = true,
                               Generator& generator = default_generator(),
                               Where where = Where::current());

struct GumbelSoftmaxOptions {
  double tau = 1.0;   // temperature
  bool hard = false;  // one-hot values with the soft ones' gradient
  int dim = -1;
};
/// softmax((logits + g) / tau) with Gumbel noise g: a sample of the classes that has a gradient
/// (Jang et al. 2017).
Variable gumbel_softmax(const Variable& logits, GumbelSoftmaxOptions options = {},
                        Generator& generator = default_generator(), Where where = Where::current());

namespace kernels {

// y is contiguous, rate and weights too.

/// -log(u) / lambd, where u in (0, 1] is word i, or of float64 words 2i and 2i + 1.
extern Kernel<void(Tensor& y, double lambd, RandomState state)> exponential;
/// Element i has a stream of its own, by its upper counter half.
extern Kernel<void(const Tensor& rate, RandomState state, Tensor& y)> poisson;
/// weights [rows, classes], y int64 [rows, samples]. Sample k of row r uses number r samples + k.
extern Kernel<void(const Tensor& weights, bool replacement, RandomState state, Tensor& y)>
    multinomial;

}  // namespace kernels
}  // namespace tapegrad
