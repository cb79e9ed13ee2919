// Blockwise attention as one op. It processes a block of queries and a block of keys at a time and
// never stores the [..., l, s] scores; the backward pass computes them again (Dao et al.,
// "FlashAttention", 2022).
#pragma once

#include "core/base/generator.h"
#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"
#include "ops/attention.h"

namespace tapegrad {
namespace kernels {

/// Dropout of the attention weights with probability p, 0 <= p < 1. Drops the same elements as
/// dropout() of a tensor [..., l, s] with numbers drawn at `state`. The kernels take these members
/// as separate arguments, because a captured step changes the state in each replay and requires it
/// as an argument of its own.
struct ShareDropout {
  double p = 0;
  RandomState state{};
};

/// Computes y [..., l, v] = softmax(scale q k^T + mask) v, for q [..., l, e], k [..., s, e], v
/// [..., s, v] with the same leading dimensions and any layout. The mask is empty, or [..., l, s]
/// of q's dtype (added) or bool (false hides a key); a causal one hides keys j > i. There is no
/// fallback: the op calls accepts(), which does not read the results. attention_backward takes the
/// operands that attention accepts. log_sums [..., l]: the logarithm of the sum of exp(scores),
/// infinite where no key is seen; float32 for sixteen-bit floats.
extern constinit Kernel<void(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                             bool causal, double scale, double dropout_p, RandomState state,
                             Tensor& y, Tensor& log_sums)>
    attention;
/// Computes the gradients that are not empty.
extern constinit Kernel<void(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                             const Tensor& mask, bool causal, double scale, double dropout_p,
                             RandomState state, const Tensor& y, const Tensor& log_sums, Tensor& dq,
                             Tensor& dk, Tensor& dv)>
    attention_backward;

}  // namespace kernels

namespace detail {

/// Returns an empty Variable if blockwise attention is not applicable: no kernel accepts the
/// operands, the mask requires a gradient, an operand has no elements, or dropout drops everything.
Variable attention_in_blocks(const Variable& query, const Variable& key, const Variable& value,
                             const AttentionOptions& options, double scale,
                             RandomGenerator& generator, Where where);

/// Computes attention by differentiable ops; stores the scores.
Variable attention_by_ops(const Variable& query, const Variable& key, const Variable& value,
                          const AttentionOptions& options, double scale,
                          RandomGenerator& generator);

}  // namespace detail
}  // namespace tapegrad
