// Trains models on the CPU and on the device by the same code, and compares the losses.
#include <gtest/gtest.h>

#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/loss.h"
#include "ops/random.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "optim/optimizers.h"

namespace tapegrad {
namespace {

using Losses = std::vector<double>;

/// Returns the losses of `train` with the given default device.
template <typename Train>
Losses on(Device device, const Train& train) {
  const Device before = default_device();
  set_default_device(device);
  manual_seed(7);
  const Losses losses = train();
  set_default_device(before);
  return losses;
}

template <typename Train>
void expect_same_losses(const Train& train, double tolerance) {
  const Losses expected = on(cpu, train), got = on(gpu, train);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], tolerance * std::abs(expected[i])) << "step " << i;
  EXPECT_LT(got.back(), got.front());
  EXPECT_EQ(on(gpu, train), got) << "run again";
}

template <typename Loss>
Losses steps(int count, optim::Optimizer& optimizer, const Loss& loss_of) {
  Losses losses;
  for (int i = 0; i < count; ++i) {
    optimizer.zero_grad();
    Variable loss = loss_of();
    loss.backward();
    optimizer.step();
    losses.push_back(loss.item());
  }
  return losses;
}

TEST(CudaTraining, ASurface) {  // like examples/peaks
  expect_same_losses(
      [] {
        const Variable xy = rand({64, 2}) * 4.0 - 2.0;
        const Variable x = narrow(xy, 1, 0, 1), y = narrow(xy, 1, 1, 1);
        const Variable z = 3.0 * square(1.0 - x) * exp(-square(x) - square(y + 1.0));
        nn::Sequential model({nn::Linear({.in_features = 2, .out_features = 20}), nn::ReLU(),
                              nn::Linear({.in_features = 20, .out_features = 5}), nn::ReLU(),
                              nn::Linear({.in_features = 5, .out_features = 1})});
        model.to(default_device());
        optim::Adam adam(model, 0.01);
        return steps(20, adam, [&] { return mse_loss(model(xy), z); });
      },
      1e-4);
}

TEST(CudaTraining, Images) {  // like examples/mnist_cnn, with batch normalisation
  expect_same_losses(
      [] {
        const Variable x = rand({16, 1, 10, 10});
        const Variable target = randint(0, 3, {16});
        nn::Sequential model({nn::Conv2d({.out_channels = 4, .kernel_size = 3}), nn::ReLU(),
                              nn::BatchNorm2d(), nn::Conv2d({.out_channels = 6, .kernel_size = 3}),
                              nn::ReLU(), nn::MaxPool2d({.kernel_size = 2}), nn::Dropout(0.25),
                              nn::Flatten(), nn::Linear({.out_features = 12}), nn::ReLU(),
                              nn::Dropout(0.5), nn::Linear({.out_features = 3})},
                             {.input_shape = {{1, 10, 10}}});
        model.to(default_device());
        optim::SGD sgd(model, optim::SGDOptions{.lr = 0.05, .momentum = 0.9});
        return steps(12, sgd, [&] { return cross_entropy(model(x), target); });
      },
      2e-3);
}

TEST(CudaTraining, Words) {
  expect_same_losses(
      [] {
        const Variable ids = randint(0, 11, {8, 5}), target = randint(0, 4, {8});
        nn::Sequential model({nn::Embedding({.num_embeddings = 11, .embedding_dim = 6}),
                              nn::LayerNorm({.normalized_shape = {6}}), nn::GELU(), nn::Flatten(),
                              nn::Linear({.in_features = 30, .out_features = 4})});
        model.to(default_device());
        optim::AdamW adam(model, {.lr = 0.02});
        return steps(12, adam, [&] { return cross_entropy(model(ids), target); });
      },
      1e-4);
}

}  // namespace
}  // namespace tapegrad
