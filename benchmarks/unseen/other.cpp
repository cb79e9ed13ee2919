// Perceptrons, generative, physical, graph and recommendation networks.
#include <cmath>

#include "benchmarks/unseen/networks.h"

namespace tapegrad::bench {
namespace {

/// GELU as users write it from elementwise ops, and the gradient of its mean.
Step hand_gelu() {
  const Variable x = randn({1024, 4096}).requires_grad_();
  return [=] {
    x.zero_grad();
    const Variable y = 0.5 * x * (1.0 + tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * pow(x, 3))));
    const Variable loss = mean(y);
    loss.backward();
    loss.item();
  };
}

nn::Sequential perceptron(const std::vector<int64_t>& sizes) {
  std::vector<nn::AnyModule> layers;
  for (size_t i = 1; i < sizes.size(); ++i) {
    if (i > 1) layers.emplace_back(nn::ReLU());
    layers.emplace_back(nn::Linear({.in_features = sizes[i - 1], .out_features = sizes[i]}));
  }
  return nn::Sequential(layers);
}

Step wide_perceptron() {
  const Variable x = randn({256, 1024}), y = randint(0, 10, {256});
  return training<optim::Adam>(perceptron({1024, 4096, 4096, 10}),
                               [=](auto& net) { return cross_entropy(net(x), y); });
}

Step tiny_perceptron() {
  const Variable x = randn({1, 8}), y = randn({1, 4});
  return training<optim::Adam>(perceptron({8, 64, 64, 4}),
                               [=](auto& net) { return mse_loss(net(x), y); });
}

struct Critic : nn::Model<Critic> {
  nn::Conv2d conv1{
      {.in_channels = 3, .out_channels = 64, .kernel_size = 4, .stride = 2, .padding = 1}};
  nn::Conv2d conv2{
      {.in_channels = 64, .out_channels = 128, .kernel_size = 4, .stride = 2, .padding = 1}};
  nn::Linear out{{.in_features = 128 * 8 * 8, .out_features = 1}};

  void members(nn::Members& m) override { m("conv1", conv1)("conv2", conv2)("out", out); }
  Variable forward(const Variable& x) const {
    return out(flatten(leaky_relu(conv2(leaky_relu(conv1(x), 0.2)), 0.2), 1));
  }
};

Step gradient_penalty() {
  const Variable real = randn({32, 3, 32, 32}), fake = randn({32, 3, 32, 32});
  return training<optim::Adam>(Critic(), [=](const auto& net) {
    const Variable share = rand({32, 1, 1, 1});
    const Variable mixed = (share * real + (1 - share) * fake).detach().requires_grad_();
    const Variable slope = grad(sum(net(mixed)), mixed, {.create_graph = true});
    const Variable penalty = mean(square(norm(flatten(slope, 1), 2.0, {1}) - 1));
    return mean(net(fake)) - mean(net(real)) + 10 * penalty;
  });
}

}  // namespace

std::vector<Network> other_networks() {
  return {
      {"hand_gelu", "GELU of elementwise ops on 1024 x 4096, with its gradient", hand_gelu},
      {"wide_perceptron", "1024-4096-4096-10, batch 256, Adam", wide_perceptron},
      {"tiny_perceptron", "8-64-64-4, batch 1, Adam", tiny_perceptron},
      {"gradient_penalty", "WGAN critic with gradient penalty, 32 x 32, batch 32, Adam",
       gradient_penalty},
  };
}

}  // namespace tapegrad::bench
