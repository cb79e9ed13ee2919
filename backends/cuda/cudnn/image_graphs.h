// Graphs of a single operation on images: batch normalization in training, and pooling.
#pragma once

#include <optional>

#include "backends/cuda/cudnn/graph.h"

namespace tapegrad::backends::cuda {

/// Layout of x, y and their gradients. Values per channel are float32.
struct BatchNormProblem {
  Graph::Form x;
};
/// run() takes the addresses of x, y, weight, bias, mean, invstd, the running mean and variance
/// before and after, eps and momentum.
std::optional<GraphPlan> plan_batch_norm(const BatchNormProblem& p, GraphTarget target);
/// run() takes the addresses of x, dy, dx, weight, mean, invstd, dweight and dbias.
std::optional<GraphPlan> plan_batch_norm_backward(const BatchNormProblem& p, GraphTarget target);

/// Images x [n, channels, h, w] and the pooled images y, or their gradients.
struct PoolProblem {
  Graph::Windows windows;
  Graph::Form x, y;
};
/// run() takes the addresses of x and y.
std::optional<GraphPlan> plan_pool(const PoolProblem& p, GraphTarget target);
/// Gradient of average pooling. run() takes the addresses of x, y, dy and dx; only dy is read.
std::optional<GraphPlan> plan_pool_backward(const PoolProblem& p, GraphTarget target);

}  // namespace tapegrad::backends::cuda
