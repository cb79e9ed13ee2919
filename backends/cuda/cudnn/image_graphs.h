// The graphs of one operation on images: batch normalisation in training, and pooling.
#pragma once

#include <optional>

#include "backends/cuda/cudnn/graph.h"

namespace tapegrad::backends::cuda {

/// How x, y and their gradients lie. What there is of each channel is float32.
struct BatchNormProblem {
  Graph::Form x;
};
/// run() takes the addresses of x, y, weight, bias, mean, invstd, of the running mean and variance
/// before and after, and of eps and the momentum.
std::optional<GraphPlan> plan_batch_norm(const BatchNormProblem& p, GraphTarget target);
/// x, dy, dx, weight, mean, invstd, dweight, dbias.
std::optional<GraphPlan> plan_batch_norm_backward(const BatchNormProblem& p, GraphTarget target);

/// Images x [n, channels, h, w] and what is made of them, or their gradients.
struct PoolProblem {
  Graph::Windows windows;
  Graph::Form x, y;
};
/// x, y.
std::optional<GraphPlan> plan_pool(const PoolProblem& p, GraphTarget target);
/// Of means: x, y, dy, dx. It reads dy alone.
std::optional<GraphPlan> plan_pool_backward(const PoolProblem& p, GraphTarget target);

}  // namespace tapegrad::backends::cuda
