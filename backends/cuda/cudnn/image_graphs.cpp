#include "backends/cuda/cudnn/image_graphs.h"

namespace tapegrad::backends::cuda {

using Value = Graph::Value;

std::optional<GraphPlan> plan_batch_norm(const BatchNormProblem& p, GraphTarget target) {
  Graph g;
  const Graph::Form of_channels = Graph::dense({1, p.x.sizes[1], 1, 1});
  const Value x = g.tensor(p.x), y = g.tensor(p.x);
  const Value weight = g.tensor(of_channels), bias = g.tensor(of_channels);
  const Value mean = g.tensor(of_channels), invstd = g.tensor(of_channels);
  const Value running_mean = g.tensor(of_channels), running_var = g.tensor(of_channels);
  const Value next_mean = g.tensor(of_channels), next_var = g.tensor(of_channels);
  const Value eps = g.number(), momentum = g.number();
  g.batch_norm({.x = x,
                .weight = weight,
                .bias = bias,
                .eps = eps,
                .y = y,
                .mean = mean,
                .invstd = invstd,
                .momentum = momentum,
                .running_mean = running_mean,
                .running_var = running_var,
                .next_mean = next_mean,
                .next_var = next_var});
  return g.plan(target);
}

std::optional<GraphPlan> plan_batch_norm_backward(const BatchNormProblem& p, GraphTarget target) {
  Graph g;
  const Graph::Form of_channels = Graph::dense({1, p.x.sizes[1], 1, 1});
  const Value x = g.tensor(p.x), dy = g.tensor(p.x), dx = g.tensor(p.x);
  const Value weight = g.tensor(of_channels);
  const Value mean = g.tensor(of_channels), invstd = g.tensor(of_channels);
  const Value dweight = g.tensor(of_channels), dbias = g.tensor(of_channels);
  g.batch_norm_backward({.x = x,
                         .dy = dy,
                         .weight = weight,
                         .mean = mean,
                         .invstd = invstd,
                         .dx = dx,
                         .dweight = dweight,
                         .dbias = dbias});
  return g.plan(target);
}

std::optional<GraphPlan> plan_pool(const PoolProblem& p, GraphTarget target) {
  Graph g;
  const Value x = g.tensor(p.x), y = g.tensor(p.y);
  g.pool(p.windows, x, y);
  return g.plan(target);
}

std::optional<GraphPlan> plan_pool_backward(const PoolProblem& p, GraphTarget target) {
  Graph g;
  const Value x = g.tensor(p.x), y = g.tensor(p.y), dy = g.tensor(p.y), dx = g.tensor(p.x);
  g.pool_backward(p.windows, x, y, dy, dx);
  return g.plan(target);
}

}  // namespace tapegrad::backends::cuda
