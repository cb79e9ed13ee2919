// Attention as graphs for which cuDNN has kernels: matrix products, a softmax composed of its
// parts, and a comparison of positions, in exactly this order of operations. NVIDIA's
// cudnn-frontend composes the same graphs; cuDNN's documentation does not list the patterns. The
// formulas are those of attention_backward.cu.
#pragma once

#include <optional>

#include "backends/cuda/cudnn/graph.h"

namespace tapegrad::backends::cuda {

/// Layouts of q, k and v: [examples, heads, length, columns]. All other tensors are contiguous.
struct AttentionProblem {
  Graph::Form q, k, v;
  bool causal;  // if true, run() takes the address of the score of a hidden key as last address
};

/// run() takes the addresses of q, k, v, y, log_sums and the scale.
std::optional<GraphPlan> plan_attention(const AttentionProblem& p, GraphTarget target);
/// run() takes the addresses of q, k, v, y, dy, log_sums, a workspace with the shape of log_sums,
/// dq, dk, dv, the scale and a 1.
std::optional<GraphPlan> plan_attention_backward(const AttentionProblem& p, GraphTarget target);

}  // namespace tapegrad::backends::cuda
