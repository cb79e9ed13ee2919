// Random tensors and dropout. Every draw takes its numbers from a Generator
// (core/base/generator.h): the default one unless another is passed. Equal seeds give equal numbers
// for any number of threads and on every device.
#pragma once

#include "core/base/generator.h"
#include "core/dispatch/dispatcher.h"
#include "ops/create.h"

namespace tapegrad {

/// Uniform in [0, 1): never 1, also in the sixteen-bit types, whose numbers are rounded floats.
Variable rand(const Shape& shape, TensorOptions options = {},
              Generator& generator = default_generator());
/// Standard normal, by Box and Muller.
Variable randn(const Shape& shape, TensorOptions options = {},
               Generator& generator = default_generator());
/// Whole numbers in [low, high), int64 unless a dtype is given; each has the probability
/// 1 / (high - low) within 2^-64. ArgumentError when there is none, or when the dtype does not hold
/// all of them exactly.
Variable randint(int64_t low, int64_t high, const Shape& shape, TensorOptions options = {},
                 Generator& generator = default_generator());
/// 0 ... n - 1 in random order, int64 unless a dtype is given that holds them.
Variable randperm(int64_t n, TensorOptions options = {},
                  Generator& generator = default_generator());
/// 1 with the probability that each element of p gives, else 0; p's shape and dtype. No gradient.
/// ArgumentError for a probability outside [0, 1].
Variable bernoulli(const Variable& p, Generator& generator = default_generator(),
                   Where where = Where::current());

/// Overwritten with uniform numbers in [low, high), or with normal ones. What x was receives no
/// gradient. ArgumentError unless low <= high (low itself when they are equal), or std >= 0.
Variable& uniform_(Variable& x, double low = 0.0, double high = 1.0,
                   Generator& generator = default_generator());
Variable& normal_(Variable& x, double mean = 0.0, double std = 1.0,
                  Generator& generator = default_generator());

/// In training each element is 0 with probability p, else x / (1 - p); otherwise x itself, the same
/// variable. p = 1 gives zeros, and zero gradients. What is dropped is 0 even where x is NaN.
/// Nothing is saved: backward draws the mask again.
Variable dropout(const Variable& x, double p = 0.5, bool training = true,
                 Generator& generator = default_generator(), Where where = Where::current());
/// residual + dropout(x, p, training), with the same numbers drawn and the same bits: what ends a
/// part of a residual network. One pass where the two have one shape and dtype.
Variable dropout_add(const Variable& x, const Variable& residual, double p = 0.5,
                     bool training = true, Generator& generator = default_generator(),
                     Where where = Where::current());

namespace kernels {

// Word i of a draw is explained in core/base/generator.h. y is contiguous, x and p have its layout.

/// min(low + u (high - low), the largest number below high) where u is word i as a fraction, or for
/// float64 words 2i and 2i + 1; low when low = high.
extern Kernel<void(Tensor& y, double low, double high, RandomState state)> uniform;
/// mean + std z, where z comes in pairs from the uniform numbers at 2j and 2j + 1
/// (backends/formulas_random.h).
extern Kernel<void(Tensor& y, double mean, double std, RandomState state)> normal;
/// low + the upper half of r * range, where r has words 2i (high) and 2i + 1 (low).
extern Kernel<void(Tensor& y, int64_t low, uint64_t range, RandomState state)> random_integers;
/// u < p. ArgumentError for a p outside [0, 1].
extern Kernel<void(const Tensor& p, Tensor& y, RandomState state)> bernoulli;
/// x / (1 - p) where word i is at least p 2^32, else 0; 0 < p < 1.
extern Kernel<void(const Tensor& x, double p, RandomState state, Tensor& y)> dropout;
/// residual + that, which is rounded first; residual is contiguous too.
extern Kernel<void(const Tensor& x, const Tensor& residual, double p, RandomState state, Tensor& y)>
    dropout_add;
/// The order of the keys r of elements 0 ... n - 1; equal ones stay in order. y is int64.
extern Kernel<void(Tensor& y, RandomState state)> permutation;

}  // namespace kernels

}  // namespace tapegrad
