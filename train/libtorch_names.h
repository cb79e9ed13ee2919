// Names of libtorch. After `using namespace tapegrad;`, `torch::nn::Linear`, `torch::relu`,
// `torch::optim::SGD` ... are the classes and functions of this library, `torch::Tensor` is
// Variable, and options can be chained as in libtorch:
//
//   torch::nn::Conv2d conv(torch::nn::Conv2dOptions(1, 32, 3).stride(2).bias(false));
//   torch::optim::SGD sgd(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
//   torch::Tensor x = torch::rand({2, 3}, torch::dtype(torch::kFloat64));
//
// The namespace is tapegrad::torch, so a program may use libtorch as well; such a program names
// ours `tapegrad::torch`.
#pragma once

#include <memory>
#include <utility>

#include "core/cuda.h"
#include "data/loader.h"
#include "nn/attention.h"
#include "nn/conv.h"
#include "nn/embedding.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/norm.h"
#include "nn/recurrent.h"
#include "ops/create.h"
#include "ops/subscript.h"
#include "optim/optimizers.h"

namespace tapegrad::torch {

using namespace ::tapegrad;
using Tensor = Variable;
using Generator = RandomGenerator;

struct TensorOptions : ::tapegrad::TensorOptions {
  using Plain = ::tapegrad::TensorOptions;
  TensorOptions& dtype(DType type) { return Plain::dtype = type, *this; }
  TensorOptions& device(Device where) { return Plain::device = where, *this; }
  TensorOptions& requires_grad(bool on = true) { return Plain::requires_grad = on, *this; }
};
inline TensorOptions dtype(DType type) { return TensorOptions().dtype(type); }
inline TensorOptions device(Device where) { return TensorOptions().device(where); }
inline TensorOptions requires_grad(bool on = true) { return TensorOptions().requires_grad(on); }

namespace indexing = ::tapegrad;
inline constexpr Reduction kMean = Reduction::kMean, kSum = Reduction::kSum,
                           kNone = Reduction::kNone;

namespace data {
using namespace ::tapegrad;
/// `for (auto& [x, y] : *make_data_loader(dataset, 64))`
template <std::derived_from<Dataset> D>
std::unique_ptr<DataLoader> make_data_loader(const D& dataset, int64_t batch_size) {
  return std::make_unique<DataLoader>(dataset, batch_size);
}
template <std::derived_from<Dataset> D>
std::unique_ptr<DataLoader> make_data_loader(const D& dataset, DataLoaderOptions options = {}) {
  return std::make_unique<DataLoader>(dataset, options);
}
}  // namespace data

namespace nn {

using namespace ::tapegrad::nn;
namespace functional = ::tapegrad;
using Module
    [[deprecated("write `struct Net : nn::Model<Net>`, with members() in place of "
                 "register_module (docs/from_pytorch.md)")]] = ::tapegrad::nn::Module;

struct LinearOptions : ::tapegrad::nn::LinearOptions {
  using Plain = ::tapegrad::nn::LinearOptions;
  LinearOptions(int64_t in, int64_t out) : Plain{{}, in, out} {}
  LinearOptions& bias(bool on) { return Plain::bias = on, *this; }
};

template <typename Size>
struct ConvOptions : ::tapegrad::nn::ConvOptions<Size> {
  using Plain = ::tapegrad::nn::ConvOptions<Size>;
  ConvOptions(int64_t in, int64_t out, Size kernel) : Plain{{}, in, out, kernel} {}
  ConvOptions& stride(Size size) { return Plain::stride = size, *this; }
  ConvOptions& padding(Size size) { return Plain::padding = size, *this; }
  ConvOptions& dilation(Size size) { return Plain::dilation = size, *this; }
  ConvOptions& groups(int64_t count) { return Plain::groups = count, *this; }
  ConvOptions& bias(bool on) { return Plain::bias = on, *this; }
};
using Conv1dOptions = ConvOptions<int64_t>;
using Conv2dOptions = ConvOptions<Size2d>;
using Conv3dOptions = ConvOptions<Size3d>;

struct BatchNormOptions : ::tapegrad::nn::BatchNormOptions {
  using Plain = ::tapegrad::nn::BatchNormOptions;
  BatchNormOptions(int64_t features) : Plain{{}, features} {}
  BatchNormOptions& eps(double value) { return Plain::eps = value, *this; }
  BatchNormOptions& momentum(double value) { return Plain::momentum = value, *this; }
  BatchNormOptions& affine(bool on) { return Plain::affine = on, *this; }
};
using BatchNorm1dOptions = BatchNormOptions;
using BatchNorm2dOptions = BatchNormOptions;

struct EmbeddingOptions : ::tapegrad::nn::EmbeddingOptions {
  using Plain = ::tapegrad::nn::EmbeddingOptions;
  EmbeddingOptions(int64_t rows, int64_t dim) : Plain{{}, rows, dim} {}
  EmbeddingOptions& padding_idx(int64_t row) { return Plain::padding_idx = row, *this; }
};

/// Of LSTM, GRU and RNN.
struct RecurrentOptions : ::tapegrad::nn::RecurrentOptions {
  using Plain = ::tapegrad::nn::RecurrentOptions;
  RecurrentOptions(int64_t input, int64_t hidden) : Plain{{}, input, hidden} {}
  RecurrentOptions& num_layers(int64_t count) { return Plain::num_layers = count, *this; }
  RecurrentOptions& bias(bool on) { return Plain::bias = on, *this; }
  RecurrentOptions& batch_first(bool on) { return Plain::batch_first = on, *this; }
  RecurrentOptions& dropout(double p) { return Plain::dropout = p, *this; }
  RecurrentOptions& bidirectional(bool on) { return Plain::bidirectional = on, *this; }
};
using LSTMOptions = RecurrentOptions;
using GRUOptions = RecurrentOptions;
using RNNOptions = RecurrentOptions;

}  // namespace nn

namespace optim {

using namespace ::tapegrad::optim;

struct SGDOptions : ::tapegrad::optim::SGDOptions {
  using Plain = ::tapegrad::optim::SGDOptions;
  SGDOptions(double rate) : Plain{.lr = rate} {}
  SGDOptions& momentum(double value) { return Plain::momentum = value, *this; }
  SGDOptions& dampening(double value) { return Plain::dampening = value, *this; }
  SGDOptions& weight_decay(double value) { return Plain::weight_decay = value, *this; }
  SGDOptions& nesterov(bool on) { return Plain::nesterov = on, *this; }
};

/// Of Adam and AdamW.
template <typename Plain>
struct AdamOptionsOf : Plain {
  AdamOptionsOf(double rate = 1e-3) : Plain{.lr = rate} {}
  AdamOptionsOf& lr(double rate) { return Plain::lr = rate, *this; }
  AdamOptionsOf& betas(std::pair<double, double> both) { return Plain::betas = both, *this; }
  AdamOptionsOf& eps(double value) { return Plain::eps = value, *this; }
  AdamOptionsOf& weight_decay(double value) { return Plain::weight_decay = value, *this; }
  AdamOptionsOf& amsgrad(bool on) { return Plain::amsgrad = on, *this; }
};
using AdamOptions = AdamOptionsOf<::tapegrad::optim::AdamOptions>;
using AdamWOptions = AdamOptionsOf<::tapegrad::optim::AdamWOptions>;

}  // namespace optim

}  // namespace tapegrad::torch
