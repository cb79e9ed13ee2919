// Random tensors and dropout. Random numbers come from a RandomGenerator (core/base/generator.h),
// the default one unless another is passed. Equal seeds give equal numbers for any number of
// threads and on every device.
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
/// rand({2}, {.generator = generator})
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

/// In training, sets each element to 0 with probability p and divides the others by 1 - p.
/// Otherwise returns x itself, the same variable. p = 1 gives zeros and zero gradients. A dropped
/// element is 0 even if x is NaN. Nothing is saved: the backward pass draws the mask again.
Variable dropout(Variable x, double p = 0.5, bool training = true,
                 RandomGenerator& generator = default_generator(), Where where = Where::current());
/// Options of dropout(x, {.p = 0.1, .training = model.is_training()}).
struct DropoutFuncOptions {
  ByName by_name = {};
  double p = 0.5;
  bool training = true;
};
template <std::convertible_to<const Variable&> V>
Variable dropout(const V& x, DropoutFuncOptions options, Where where = Where::current()) {
  return dropout(x, options.p, options.training, default_generator(), where);
}
/// Returns residual + dropout(x, p, training), with the same random numbers and the same bits as
/// the two ops. Computed in one pass if x and residual have the same shape and dtype. For the end
/// of a residual block.
Variable dropout_add(Variable x, Variable residual, double p = 0.5, bool training = true,
                     RandomGenerator& generator = default_generator(),
                     Where where = Where::current());

namespace kernels {

// core/base/generator.h explains the words of a draw. y is contiguous; x and p have y's layout.

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
/// Computes y = x / (1 - p) where random word i is at least p 2^32, else 0; 0 < p < 1.
extern Kernel<void(const Tensor& x, double p, RandomState state, Tensor& y)> dropout;
/// Computes y = residual + dropout of x, where the dropout is rounded to the dtype before the sum.
/// residual is contiguous.
extern Kernel<void(const Tensor& x, const Tensor& residual, double p, RandomState state, Tensor& y)>
    dropout_add;
/// y (int64) is the order that sorts random keys of elements 0 ... n - 1; equal keys keep their
/// order.
extern Kernel<void(Tensor& y, RandomState state)> permutation;

}  // namespace kernels

}  // namespace tapegrad
