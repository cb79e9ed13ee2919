// Attention by cuDNN's kernels, which use a device's newest instructions.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

// The two of ops/internal/attention_blocks.h, without a mask of one's own and without dropout, for
// sixteen-bit floats and kFewestScores or more. Each is false, with nothing done, where cuDNN is
// not there or not wanted, and where it has no plan (graph.h).

inline constexpr int64_t kFewestScores = int64_t{1} << 20;

bool cudnn_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, double scale,
                     Tensor& y, Tensor& log_sums);
/// The gradients that are not empty.
bool cudnn_attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                              bool causal, double scale, const Tensor& y, const Tensor& log_sums,
                              Tensor& dq, Tensor& dk, Tensor& dv);

}  // namespace tapegrad::backends::cuda
