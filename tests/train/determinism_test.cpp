// T67: two training runs from the same seed end in identical bits. Linear ops on whole numbers are
// exact for any number of threads.
#include <gtest/gtest.h>

#include <cstring>

#include "core/base/generator.h"
#include "data/loader.h"
#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/function_layer.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/settings.h"
#include "optim/optimizers.h"

namespace tapegrad {
namespace {

/// Returns all parameters, buffers and gradients after an epoch with shuffling, dropout and a
/// worker thread.
std::vector<float> trained(uint64_t seed) {
  manual_seed(seed);
  nn::Sequential model({nn::Conv2d({.in_channels = 3, .out_channels = 8, .kernel_size = 3}),
                        nn::BatchNorm2d({.num_features = 8}), nn::ReLU(), nn::MaxPool2d(2),
                        nn::Flatten(), nn::Dropout(0.5),
                        nn::Linear({.in_features = 8 * 7 * 7, .out_features = 10})});
  optim::Adam optimizer(model, {.lr = 0.01});
  DataLoader loader(TensorDataset(randn({40, 3, 16, 16}), randint(0, 10, {40})),
                    {.batch_size = 16, .shuffle = true, .num_workers = 1, .seed = seed});
  for (auto& [x, y] : loader) {
    optimizer.zero_grad();
    cross_entropy(model(x), y).backward();
    optimizer.step();
  }
  std::vector<float> bits;
  const auto append = [&](const Variable& x) {
    for (float value : x.to_vector<float>()) bits.push_back(value);
  };
  for (const Variable& p : model.parameters()) append(p), append(p.grad());
  for (const auto& [name, value] : model.state_dict()) append(Variable(value.to(f32)));
  return bits;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(Determinism, T67_ATrainingRunIsTheSameAgain) {
  const int64_t before = get_num_threads();
  for (int threads : {1, 3}) {
    set_num_threads(threads);
    const std::vector<float> first = trained(5);
    EXPECT_TRUE(same_bits(trained(5), first)) << threads << " threads";
    EXPECT_FALSE(same_bits(trained(6), first));
  }
  set_num_threads(before);
}

/// Values and gradients of products, convolutions and sums, which are exact in float32.
std::vector<double> linear_ops() {
  const auto whole = [](const Shape& shape, int64_t range) {
    RandomGenerator generator(uint64_t(numel(shape)));
    return randint(-range, range + 1, shape, {.dtype = f32}, generator).requires_grad_();
  };
  const Variable a = whole({70, 90}, 4), b = whole({90, 130}, 4), x = whole({3, 16, 12, 12}, 4),
                 w = whole({24, 16, 3, 3}, 4), bias = whole({24}, 4), table = whole({50, 8}, 4);
  const Variable ids = remainder(arange(20000), 50);
  std::vector<double> all;
  for (const Variable& y :
       {matmul(a, b), matmul(a.to(f64), b.to(f64)).to(f32), conv2d(x, w, bias, {.padding = 1}),
        sum(x, {0, 2}), embedding(ids, table), cumsum(a, 1),
        avg_pool2d(x, {.kernel_size = 2}) * 4.0}) {
    RandomGenerator generator(7);
    y.backward(randint(-2, 3, y.shape(), {.dtype = f32}, generator));
    for (double value : y.to_vector<double>()) all.push_back(value);
  }
  for (const Variable& leaf : {a, b, x, w, bias, table})
    for (double value : leaf.grad().to_vector<double>()) all.push_back(value);
  return all;
}

TEST(Determinism, T67_WholeNumbersAreExactForAnyNumberOfThreads) {
  const int64_t before = get_num_threads();
  set_conv_algorithm(ConvAlgorithm::kDirect);
  set_num_threads(1);
  const std::vector<double> expected = linear_ops();
  for (int threads : {2, 3, 8}) {
    set_num_threads(threads);
    EXPECT_EQ(linear_ops(), expected) << threads << " threads";
  }
  set_conv_algorithm(ConvAlgorithm::kAuto);
  set_num_threads(before);
}

}  // namespace
}  // namespace tapegrad
