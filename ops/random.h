// Random tensors and dropout. Every draw takes its numbers from a Generator (core/random.h): the
// default one unless another is passed. Equal seeds give equal numbers for any number of threads
// and on every device.
#pragma once

#include "core/random.h"
#include "ops/create.h"

namespace tapegrad {

/// Uniform in [0, 1).
Variable rand(const Shape& shape, TensorOptions options = {},
              Generator& generator = default_generator());
/// Standard normal, by Box and Muller.
Variable randn(const Shape& shape, TensorOptions options = {},
               Generator& generator = default_generator());
/// Whole numbers in [low, high), int64 unless a dtype is given.
Variable randint(int64_t low, int64_t high, const Shape& shape, TensorOptions options = {},
                 Generator& generator = default_generator());
/// 0 ... n - 1 in random order, int64.
Variable randperm(int64_t n, TensorOptions options = {},
                  Generator& generator = default_generator());
/// 1 with the probability that each element of p gives, else 0; p's shape and dtype. No gradient.
Variable bernoulli(const Variable& p, Generator& generator = default_generator(),
                   Where where = Where::current());

/// Overwritten with uniform numbers in [low, high), or with normal ones. No gradient.
Variable& uniform_(Variable& x, double low = 0.0, double high = 1.0,
                   Generator& generator = default_generator());
Variable& normal_(Variable& x, double mean = 0.0, double std = 1.0,
                  Generator& generator = default_generator());

/// In training each element is 0 with probability p, else x / (1 - p); otherwise x itself, the same
/// variable. p = 1 gives zeros, and zero gradients.
Variable dropout(const Variable& x, double p = 0.5, bool training = true,
                 Generator& generator = default_generator(), Where where = Where::current());

}  // namespace tapegrad
