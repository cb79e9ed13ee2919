// T67: a training run, once more from the same seed, ends in the same bits.
#include <gtest/gtest.h>

#include <cstring>

#include "core/random.h"
#include "data/loader.h"
#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/embedding.h"
#include "nn/function.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/loss.h"
#include "ops/random.h"
#include "optim/optimizers.h"

// OpenMP's own; the library links it.
extern "C" void omp_set_num_threads(int count);
extern "C" int omp_get_max_threads();

namespace tapegrad {
namespace {

/// All parameters, buffers and gradients after an epoch with shuffling, dropout and a worker
/// thread.
std::vector<float> trained(uint64_t seed) {
  manual_seed(seed);
  nn::Sequential model({nn::Conv2d({.in_channels = 3, .out_channels = 8, .kernel_size = 3}),
                        nn::BatchNorm2d({.num_features = 8}), nn::ReLU(), nn::MaxPool2d(2),
                        nn::Flatten(), nn::Dropout(0.5),
                        nn::Linear({.in_features = 8 * 7 * 7, .out_features = 10})});
  optim::Adam optimizer(model, {.lr = 0.01});
  DataLoader loader(TensorDataset(randn({40, 3, 16, 16}), randint(0, 10, {40})),
                    {.batch_size = 16, .shuffle = true, .seed = seed, .num_workers = 1});
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
  const int before = omp_get_max_threads();
  for (int threads : {1, 3}) {
    omp_set_num_threads(threads);
    const std::vector<float> first = trained(5);
    EXPECT_TRUE(same_bits(trained(5), first)) << threads << " threads";
    EXPECT_FALSE(same_bits(trained(6), first));
  }
  omp_set_num_threads(before);
}

}  // namespace
}  // namespace tapegrad
