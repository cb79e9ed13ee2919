// Attention by cuDNN's kernels, which use a device's newest instructions.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

// Fast paths for the kernels of ops/internal/attention_blocks.h: sixteen-bit floats, at least
// kFewestScores scores, no explicit mask, no dropout. Return false, and change nothing, if cuDNN is
// missing or turned off, or has no plan (graph.h).

inline constexpr int64_t kFewestScores = int64_t{1} << 20;

bool cudnn_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, double scale,
                     Tensor& y, Tensor& log_sums);
/// Computes the gradients that are not empty.
bool cudnn_attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                              bool causal, double scale, const Tensor& y, const Tensor& log_sums,
                              Tensor& dq, Tensor& dk, Tensor& dv);

}  // namespace tapegrad::backends::cuda
