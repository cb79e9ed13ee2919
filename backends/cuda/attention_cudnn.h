// Attention by cuDNN's kernels, which use a device's newest instructions.
#pragma once

#include "core/tensor.h"

namespace tapegrad::backends::cuda {

// The two of ops/attention_blocks.h, without a mask of one's own and without dropout, for
// sixteen-bit floats. Each is false, with nothing done, where cuDNN is not there or not wanted,
// where it knows no way that gives the same bits each time, and for few scores. As cuDNN compiles a
// kernel for each new set of sizes, in a third of a second, it is also false for sizes that come
// after many others.

inline constexpr int64_t kFewestScores = int64_t{1} << 20;
inline constexpr int kMostAttentions = 64;

bool cudnn_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, double scale,
                     Tensor& y, Tensor& log_sums);
/// The gradients that are not empty.
bool cudnn_attention_backward(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                              bool causal, double scale, const Tensor& y, const Tensor& log_sums,
                              Tensor& dq, Tensor& dk, Tensor& dv);

}  // namespace tapegrad::backends::cuda
