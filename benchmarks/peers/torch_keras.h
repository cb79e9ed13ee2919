// The Keras net of examples/mnist_cnn and its optimizer, with libtorch.
#pragma once

#include <torch/torch.h>

#include <vector>

namespace peers {

inline torch::nn::Sequential keras_net() {
  namespace nn = torch::nn;
  return nn::Sequential(nn::Conv2d(1, 32, 3), nn::ReLU(), nn::Conv2d(32, 64, 3), nn::ReLU(),
                        nn::MaxPool2d(2), nn::Dropout(0.25), nn::Flatten(), nn::Linear(9216, 128),
                        nn::ReLU(), nn::Dropout(0.5), nn::Linear(128, 10));
}

/// Adadelta with in-place ops, like PyTorch's Python implementation; libtorch's C++ interface has
/// none.
struct Adadelta {
  std::vector<torch::Tensor> parameters, squares, deltas;

  explicit Adadelta(std::vector<torch::Tensor> list) : parameters(std::move(list)) {
    for (const torch::Tensor& parameter : parameters) {
      squares.push_back(torch::zeros_like(parameter));
      deltas.push_back(torch::zeros_like(parameter));
    }
  }
  void zero_grad() {
    for (torch::Tensor& parameter : parameters)
      if (parameter.grad().defined()) parameter.mutable_grad().zero_();
  }
  void step() {
    const torch::NoGradGuard no_grad;
    constexpr double kRho = 0.9, kEps = 1e-6;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const torch::Tensor& gradient = parameters[i].grad();
      squares[i].mul_(kRho).addcmul_(gradient, gradient, 1 - kRho);
      const torch::Tensor scale = squares[i].add(kEps).sqrt_();
      const torch::Tensor delta = deltas[i].add(kEps).sqrt_().div_(scale).mul_(gradient);
      deltas[i].mul_(kRho).addcmul_(delta, delta, 1 - kRho);
      parameters[i].sub_(delta);
    }
  }
};

}  // namespace peers
