// Training steps for benchmarks: models with synthetic data.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/tape/variable.h"
#include "nn/conv.h"
#include "nn/sequential.h"
#include "optim/optimizer.h"

namespace tapegrad::bench {

struct Workload {
  int64_t steps = 0;  // number of steps for a stable median
  std::function<Variable()> loss;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::shared_ptr<nn::Module> model = {};
};

struct WorkloadInfo {
  std::string name, description;
  Workload (*make)();
};
const std::vector<WorkloadInfo>& workloads();

/// Returns a convolution of a residual network: without bias, and padded, so that stride 1 keeps
/// the size.
nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride);

/// Returns the Keras net of examples/mnist_cnn, with new weights.
nn::Sequential keras_net();

}  // namespace tapegrad::bench
