// Which batch normalisations and poolings use cuDNN's graphs, and that the stand-in detects invalid
// graphs.
#include <gtest/gtest.h>

#include "backends/cuda/cudnn/available.h"
#include "backends/cuda/cudnn/image_graphs.h"
#include "backends/cuda/layout/packed.h"
#include "core/cuda.h"
#include "core/tape/recording.h"
#include "core/tape/variable.h"
#include "cudnn_calls.h"
#include "ops/norm.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

using namespace backends::cuda;

const Shape kEnough{2, 64, 128, 64};

Variable images(const Shape& shape, DType dtype = bf16) {
  return randn(shape).to(dtype).to(gpu).detach();
}
/// Returns a channels-last image.
Variable packed(const Shape& shape, DType dtype = bf16) {
  const Variable x = images(shape, dtype);
  set_packed(x.value());
  return x;
}

/// Counts the graphs that cuDNN computes in f().
template <typename F>
int graphs(const F& f) {
  const int before = coh::cudnn_graphs_run();
  f();
  return coh::cudnn_graphs_run() - before;
}

int in_batch_norm(const Variable& x, const Variable& weight = {}, bool training = true) {
  const Variable mean = zeros({x.size(1)}).to(gpu), var = ones({x.size(1)}).to(gpu);
  return graphs([&] { batch_norm(x, mean, var, weight, {}, {.training = training}); });
}

TEST(CudaCudnnImages, BatchNormOfLargePackedImages) {
  EXPECT_EQ(in_batch_norm(packed(kEnough)), 1);
  EXPECT_EQ(in_batch_norm(packed(kEnough, f16)), 1);
  EXPECT_EQ(in_batch_norm(packed(kEnough), {}, /*training=*/false), 0);
  EXPECT_EQ(in_batch_norm(images(kEnough)), 0);           // contiguous
  EXPECT_EQ(in_batch_norm(packed(kEnough, f32)), 0);      // not a 16-bit type
  EXPECT_EQ(in_batch_norm(packed({2, 64, 128, 63})), 0);  // too few elements
  EXPECT_EQ(in_batch_norm(packed({2, 68, 128, 64})), 0);  // channels not a multiple of eight
  const Variable numbers = ones({65}).to(gpu);
  EXPECT_EQ(in_batch_norm(packed(kEnough), narrow(numbers, 0, 1, 64)), 0);  // not aligned
  EXPECT_EQ(in_batch_norm(packed(kEnough), narrow(numbers, 0, 0, 64)), 1);
  const bool before = use_cudnn(false);
  EXPECT_EQ(in_batch_norm(packed(kEnough)), 0);
  use_cudnn(before);
}

TEST(CudaCudnnImages, GradientsOfBatchNorm) {
  const Variable weight = ones({64}).to(gpu).requires_grad_();
  const Variable x = packed(kEnough).requires_grad_();
  const Variable dy = packed(kEnough);
  const auto y = [&](bool training) {
    return batch_norm(x, zeros({64}).to(gpu), ones({64}).to(gpu), weight, {},
                      {.training = training});
  };
  const Variable trained = y(true), used = y(false);
  const auto in = [&](const Variable& of, std::vector<Variable> wanted, GradOptions options = {}) {
    options.retain_graph = true;
    return graphs([&] { grad(of, wanted, dy, options); });
  };
  EXPECT_EQ(in(trained, {x, weight}), 1);
  EXPECT_EQ(in(trained, {x}), 1);
  EXPECT_EQ(in(trained, {weight}), 0);  // only sums are needed
  EXPECT_EQ(in(used, {x, weight}), 0);
  // the recorded rule is composed of ops
  EXPECT_EQ(in(trained, {x, weight}, {.create_graph = true}), 0);
}

TEST(CudaCudnnImages, Pooling) {
  const NoGrad off;
  const auto maximum = [](const Variable& x, const MaxPool2dOptions& options) {
    return graphs([&] { max_pool2d(x, options); });
  };
  const auto mean = [](const Variable& x, const AvgPool2dOptions& options) {
    return graphs([&] { avg_pool2d(x, options); });
  };
  const Variable x = images({64, 3, 12, 10}, f32);
  EXPECT_EQ(maximum(x, {.kernel_size = 3, .stride = 2, .padding = 1}), 1);
  EXPECT_EQ(mean(x, {.kernel_size = 3, .stride = 2, .padding = 1}), 1);
  EXPECT_EQ(maximum(x, {.kernel_size = 2, .dilation = 2}), 0);
  EXPECT_EQ(maximum(x, {.kernel_size = 3, .stride = 2, .ceil_mode = true}), 0);
  EXPECT_EQ(maximum(x, {.kernel_size = 2, .ceil_mode = true}), 1);  // indices are not needed
  EXPECT_EQ(mean(x, {.kernel_size = 5, .stride = 3, .padding = 2, .ceil_mode = true}), 0);
  // cuDNN accepts float64 too, but computes in float32.
  EXPECT_EQ(maximum(x.to(f64), {.kernel_size = 2}), 0);
  EXPECT_EQ(mean(x.to(f64), {.kernel_size = 2}), 0);
  EXPECT_EQ(graphs([&] { max_pool2d_with_indices(x, {.kernel_size = 2}); }), 0);
  EXPECT_EQ(graphs([&] { adaptive_avg_pool2d(x, {4, 5}); }), 1);
  EXPECT_EQ(graphs([&] { adaptive_avg_pool2d(x, {5, 5}); }), 0);
  EXPECT_EQ(graphs([&] { adaptive_max_pool2d(x, {1, 1}); }), 1);
  EXPECT_EQ(mean(images({64, 3, 12, 24}), {.kernel_size = 2}), 0);  // not supported by cuDNN
  EXPECT_EQ(mean(images({0, 3, 12, 10}), {.kernel_size = 2}), 0);
  EXPECT_EQ(mean(images({45, 3, 12, 10}), {.kernel_size = 2}), 0);  // too few elements

  EXPECT_EQ(maximum(packed(kEnough), {.kernel_size = 2}), 1);
  EXPECT_EQ(mean(packed(kEnough, f32), {.kernel_size = 2}), 1);
  EXPECT_EQ(mean(packed({2, 64, 128, 63}), {.kernel_size = 2}), 0);  // too few elements
  EXPECT_EQ(graphs([&] { adaptive_avg_pool2d(packed(kEnough), 1); }), 1);
}

TEST(CudaCudnnImages, GradientsOfPooling) {
  const Variable x = images({64, 3, 12, 10}, f32).requires_grad_();
  EXPECT_EQ(graphs([&] { grad(sum(avg_pool2d(x, {.kernel_size = 2})), x); }), 2);
  EXPECT_EQ(graphs([&] { grad(sum(max_pool2d(x, {.kernel_size = 2})), x); }), 0);  // needs indices
}

TEST(CudaCudnnImages, PlantedMistakesAreNoticed) {
  using cuda::CudaError;
  const Graph::Form x = Graph::dense({2, 3, 8, 8}, CUDNN_DATA_HALF),
                    y = Graph::dense({2, 3, 4, 4}, CUDNN_DATA_HALF),
                    other = Graph::dense({2, 3, 4, 4}, CUDNN_DATA_BFLOAT16);
  const auto mean = CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING;
  const auto plan = [](const PoolProblem& p) { plan_pool(p, {}); };
  const auto plan_backward = [](const PoolProblem& p) { plan_pool_backward(p, {}); };
  const Graph::Windows right{mean, {2, 2}, {2, 2}, {0, 0}};
  const CudnnUse use(gpu);
  EXPECT_TRUE(plan_pool({right, x, y}, {.handle = use.handle()}));
  EXPECT_THROW(plan({right, x, other}), CudaError);
  EXPECT_THROW(plan({right, x, x}), CudaError);
  EXPECT_THROW(plan({right, x, Graph::channels_last(y.sizes, y.type)}), CudaError);
  EXPECT_THROW(plan({{mean, {2, 2}, {0, 2}, {0, 0}}, x, y}), CudaError);
  EXPECT_THROW(plan({{mean, {2, 2}, {2, 2}, {2, 2}}, x, y}), CudaError);
  EXPECT_THROW(plan_backward({{CUDNN_RESAMPLE_MAXPOOL, {2, 2}, {2, 2}, {0, 0}}, x, y}), CudaError);

  Graph g;
  const Graph::Form of_channels = Graph::dense({1, 3, 1, 1});
  const Graph::Value from = g.tensor(x), to = g.tensor(x), number = g.number(),
                     numbers = g.tensor(of_channels), others = g.tensor(Graph::dense({1, 2, 1, 1}));
  const Graph::BatchNorm norm{from,    numbers, numbers, number,  to,      numbers,
                              numbers, number,  numbers, numbers, numbers, numbers};
  g.batch_norm(norm);
  const auto with = [&](Graph::Value Graph::BatchNorm::*member, Graph::Value value) {
    Graph::BatchNorm wrong = norm;
    wrong.*member = value;
    g.batch_norm(wrong);
  };
  EXPECT_THROW(with(&Graph::BatchNorm::y, g.tensor(y)), CudaError);
  EXPECT_THROW(with(&Graph::BatchNorm::bias, others), CudaError);
  EXPECT_THROW(with(&Graph::BatchNorm::next_var, others), CudaError);
  EXPECT_THROW(with(&Graph::BatchNorm::momentum, numbers), CudaError);
}

}  // namespace
}  // namespace tapegrad
