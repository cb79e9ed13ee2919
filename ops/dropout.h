// Dropout and its variants. Random numbers come from a RandomGenerator as in ops/random.h: equal
// seeds drop equal elements for any number of threads and on every device.
#pragma once

#include "core/base/by_name.h"
#include "core/base/generator.h"
#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

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

namespace kernels {

// All tensors are contiguous.

/// Computes y = x / (1 - p) where random word i is at least p 2^32, else 0; 0 < p < 1.
extern Kernel<void(const Tensor& x, double p, RandomState state, Tensor& y)> dropout;
/// Computes y = residual + dropout of x, where the dropout is rounded to the dtype before the sum.
extern Kernel<void(const Tensor& x, const Tensor& residual, double p, RandomState state, Tensor& y)>
    dropout_add;

}  // namespace kernels

}  // namespace tapegrad
