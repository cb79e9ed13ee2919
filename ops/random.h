// Random tensors. ops/dropout.h has dropout and its variants. Random numbers come from a
// RandomGenerator (core/base/generator.h), the default one unless another is passed. Equal seeds
// give equal numbers for any number of threads and on every device.
#pragma once

#include "core/base/by_name.h"
#include "core/base/generator.h"
#include "core/dispatch/dispatcher.h"
#include "ops/create.h"

namespace tapegrad {

/// Returns uniform numbers in [0, 1). Never 1, even in sixteen-bit dtypes, which are rounded from
/// float32.
Variable rand(const Shape& shape, TensorOptions options = {},
              RandomGenerator& generator = default_generator());
/// Returns standard normal numbers by the Box-Muller transform.
Variable randn(const Shape& shape, TensorOptions options = {},
               RandomGenerator& generator = default_generator());
/// Option of rand({2}, {.generator = generator}).
struct GeneratorOption {
  ByName by_name = {};
  RandomGenerator& generator;
};
Variable rand(const Shape& shape, GeneratorOption option);
Variable randn(const Shape& shape, GeneratorOption option);
/// Equivalent to rand() and randn() with the shape, dtype and device of x.
Variable rand_like(const Variable& x);
Variable randn_like(const Variable& x);
/// Returns uniform integers in [low, high), with the shape, dtype and device of x.
Variable randint_like(const Variable& x, int64_t low, int64_t high);
Variable randint_like(const Variable& x, int64_t high);
// Overloads with sizes without braces: randn(2, 3).
template <std::integral... N>
requires(sizeof...(N) > 1) Variable rand(N... sizes) { return rand(Dims::of(sizes...)); }
template <std::integral... N>
requires(sizeof...(N) > 1) Variable randn(N... sizes) { return randn(Dims::of(sizes...)); }
template <OneOption O>
Variable rand(const Shape& shape, O option) {
  return rand(shape, detail::only(option));
}
template <OneOption O>
Variable randn(const Shape& shape, O option) {
  return randn(shape, detail::only(option));
}
/// A dtype and a device, in any order: randn({2, 3}, f64, gpu).
template <OneOption A, OneOption B>
Variable rand(const Shape& shape, A one, B other) {
  return rand(shape, detail::both(one, other));
}
template <OneOption A, OneOption B>
Variable randn(const Shape& shape, A one, B other) {
  return randn(shape, detail::both(one, other));
}
Variable rand(const Shape& shape, RandomGenerator& generator);
Variable randn(const Shape& shape, RandomGenerator& generator);

/// Returns uniform integers in [low, high), int64 unless a dtype is given. The probability of each
/// is 1 / (high - low) to within 2^-64. Throws ArgumentError if the range is empty or if the dtype
/// cannot represent every number of the range exactly.
Variable randint(int64_t low, int64_t high, const Shape& shape, TensorOptions options = {},
                 RandomGenerator& generator = default_generator());
/// Returns uniform integers in [0, high).
Variable randint(int64_t high, const Shape& shape, TensorOptions options = {});
template <OneOption O>
Variable randint(int64_t low, int64_t high, const Shape& shape, O option) {
  return randint(low, high, shape, detail::only(option));
}
template <OneOption O>
Variable randint(int64_t high, const Shape& shape, O option) {
  return randint(0, high, shape, detail::only(option));
}
template <OneOption O>
Variable randperm(int64_t n, O option) {
  return randperm(n, detail::only(option));
}
Variable randint(int64_t low, int64_t high, const Shape& shape, RandomGenerator& generator);
/// Returns a random permutation of 0 ... n - 1, int64 unless a dtype is given.
Variable randperm(int64_t n, TensorOptions options = {},
                  RandomGenerator& generator = default_generator());
Variable randperm(int64_t n, RandomGenerator& generator);
/// Returns 1 with the elementwise probability p, else 0, in p's shape and dtype. No gradient.
/// Throws ArgumentError for a probability outside [0, 1].
Variable bernoulli(const Variable& p, RandomGenerator& generator = default_generator(),
                   Where where = Where::current());

/// Overwrite x with uniform numbers in [low, high) (low if the bounds are equal) or with normal
/// numbers. The previous value of x receives no gradient. Throw ArgumentError unless low <= high,
/// or std >= 0.
Variable& uniform_(Variable& x, double low = 0.0, double high = 1.0,
                   RandomGenerator& generator = default_generator(),
                   Where where = Where::current());
Variable& normal_(Variable& x, double mean = 0.0, double std = 1.0,
                  RandomGenerator& generator = default_generator(), Where where = Where::current());

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

// core/base/generator.h explains the words of a draw. All tensors are contiguous.

/// Computes y = min(low + u (high - low), the largest number below high), where u is made of random
/// word i, or of words 2i and 2i + 1 for float64; y = low if low = high.
extern Kernel<void(Tensor& y, double low, double high, RandomState state)> uniform;
/// Computes y = mean + std z, where a pair of z is computed from the uniform numbers 2j and 2j + 1
/// (backends/formulas_random.h).
extern Kernel<void(Tensor& y, double mean, double std, RandomState state)> normal;
/// Computes y = low + the upper half of r * range, where r consists of words 2i (high) and 2i + 1
/// (low).
extern Kernel<void(Tensor& y, int64_t low, uint64_t range, RandomState state)> random_integers;
/// Computes y = 1 where u < p, else 0. Throws ArgumentError for a p outside [0, 1].
extern Kernel<void(const Tensor& p, Tensor& y, RandomState state)> bernoulli;
/// y (int64) is the order that sorts random keys of elements 0 ... n - 1; equal keys keep their
/// order.
extern Kernel<void(Tensor& y, RandomState state)> permutation;

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
