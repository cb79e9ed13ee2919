// Version of benchmarks/training.cpp for libtorch, with the same models, batches and optimizers.
//
//   torch_training                     all workloads
//   torch_training --steps=100 gpt     more steps of one workload
#include <torch/torch.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>

#include "benchmarks/measure.h"
#include "benchmarks/peers/torch_keras.h"

namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;
using torch::Tensor;

struct Workload {
  int64_t steps;
  std::function<Tensor()> loss;
  std::function<void()> zero_grad, update;
};
struct Step {
  Workload& work;
  Tensor value;

  void zero_grad() { work.zero_grad(); }
  void loss() { value = work.loss(); }
  void backward() { value.backward(); }
  void update() { work.update(); }
  void read() { value.item<float>(); }
};

/// Makes a workload with any of libtorch's optimizers.
template <typename Optimizer>
Workload make(int64_t steps, std::function<Tensor()> loss, Optimizer optimizer) {
  const auto shared = std::make_shared<Optimizer>(std::move(optimizer));
  return {steps, std::move(loss), [=] { shared->zero_grad(); }, [=] { shared->step(); }};
}

Tensor labels(int64_t classes, int64_t count) {
  return torch::randint(0, classes, {count}, torch::kLong);
}

Workload peaks() {
  nn::Sequential net(nn::Linear(2, 20), nn::ReLU(), nn::Linear(20, 5), nn::ReLU(),
                     nn::Linear(5, 1));
  const Tensor x = torch::rand({40'000, 2}), y = torch::rand({40'000, 1});
  return make(
      200, [=]() mutable { return F::mse_loss(net->forward(x), y); },
      torch::optim::Adam(net->parameters(), 0.08));
}

Workload keras_cnn() {
  nn::Sequential net = peers::keras_net();
  const Tensor x = torch::randn({128, 1, 28, 28}), y = labels(10, 128);
  return make(
      30, [=]() mutable { return F::cross_entropy(net->forward(x), y); },
      peers::Adadelta(net->parameters()));
}

Workload article_cnn(int64_t batch) {
  nn::Sequential net(nn::Conv2d(nn::Conv2dOptions(1, 10, 3).padding(1)), nn::ReLU(),
                     nn::MaxPool2d(2), nn::Flatten(), nn::Linear(1960, 100), nn::ReLU(),
                     nn::Linear(100, 10));
  const Tensor x = torch::randn({batch, 1, 28, 28}), y = labels(10, batch);
  return make(
      100, [=]() mutable { return F::cross_entropy(net->forward(x), y); },
      torch::optim::Adam(net->parameters(), 1e-3));
}

Workload lstm_lm() {
  constexpr int64_t kWords = 10'000, kHidden = 256, kLength = 35, kBatch = 20;
  nn::Embedding embedding(kWords, kHidden);
  nn::LSTM lstm(nn::LSTMOptions(kHidden, kHidden).num_layers(2));
  nn::Linear out(kHidden, kWords);
  std::vector<Tensor> parameters = embedding->parameters();
  for (const auto& more : {lstm->parameters(), out->parameters()})
    parameters.insert(parameters.end(), more.begin(), more.end());
  const Tensor x = labels(kWords, kLength * kBatch).view({kLength, kBatch});
  const Tensor y = labels(kWords, kLength * kBatch);
  return make(
      20,
      [=]() mutable {
        const Tensor hidden = std::get<0>(lstm(embedding(x)));
        return F::cross_entropy(out(hidden.flatten(0, 1)), y);
      },
      torch::optim::SGD(parameters, 0.1));
}

constexpr int64_t kWidth = 128, kHeads = 4;

nn::Linear linear(int64_t in, int64_t out) {
  return nn::Linear(nn::LinearOptions(in, out).bias(false));
}

struct BlockImpl : nn::Module {
  nn::LayerNorm norm1{nn::LayerNormOptions({kWidth})}, norm2{nn::LayerNormOptions({kWidth})};
  nn::Linear qkv = linear(kWidth, 3 * kWidth), proj = linear(kWidth, kWidth);
  nn::Linear up = linear(kWidth, 4 * kWidth), down = linear(4 * kWidth, kWidth);

  BlockImpl() {
    register_module("norm1", norm1);
    register_module("norm2", norm2);
    register_module("qkv", qkv);
    register_module("proj", proj);
    register_module("up", up);
    register_module("down", down);
  }
  Tensor forward(const Tensor& x, const Tensor& mask) {
    const auto heads = [&](const Tensor& t) {
      return t.view({x.size(0), x.size(1), kHeads, kWidth / kHeads}).transpose(1, 2);
    };
    const auto parts = qkv(norm1(x)).split(kWidth, 2);
    const Tensor scores = torch::matmul(heads(parts[0]), heads(parts[1]).transpose(-2, -1)) *
                          (1.0 / std::sqrt(double(kWidth / kHeads)));
    const Tensor share =
        torch::softmax(scores.masked_fill(mask, -std::numeric_limits<double>::infinity()), -1);
    const Tensor seen =
        torch::matmul(share, heads(parts[2])).transpose(1, 2).contiguous().view(x.sizes());
    const Tensor y = x + proj(seen);
    return y + down(torch::gelu(up(norm2(y))));
  }
};
TORCH_MODULE(Block);

struct GptImpl : nn::Module {
  static constexpr int64_t kLetters = 65, kLength = 64;
  nn::Embedding letter{kLetters, kWidth}, place{kLength, kWidth};
  std::vector<Block> blocks;
  nn::LayerNorm norm{nn::LayerNormOptions({kWidth})};
  nn::Linear head = linear(kWidth, kLetters);

  GptImpl() {
    register_module("letter", letter);
    register_module("place", place);
    for (int i = 0; i < 4; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), Block()));
    register_module("norm", norm);
    register_module("head", head);
  }
  Tensor forward(const Tensor& x) {
    const Tensor later = torch::ones({kLength, kLength}, torch::kBool).triu(1);
    Tensor y = letter(x) + place(torch::arange(kLength));
    for (Block& block : blocks) y = block(y, later);
    return head(norm(y));
  }
};
TORCH_MODULE(Gpt);

Workload gpt() {
  constexpr int64_t kBatch = 12, kTokens = kBatch * GptImpl::kLength;
  Gpt net;
  const Tensor x = labels(GptImpl::kLetters, kTokens).view({kBatch, GptImpl::kLength});
  const Tensor y = labels(GptImpl::kLetters, kTokens);
  return make(
      40, [=]() mutable { return F::cross_entropy(net(x).flatten(0, 1), y); },
      torch::optim::AdamW(net->parameters(), 1e-3));
}

nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return nn::Conv2d(
      nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

struct BasicImpl : nn::Module {
  nn::Conv2d conv1, conv2, shortcut;
  nn::BatchNorm2d norm1, norm2, shortcut_norm;
  bool direct;

  BasicImpl(int64_t in, int64_t out, int64_t stride)
      : conv1(register_module("conv1", conv(in, out, 3, stride))),
        conv2(register_module("conv2", conv(out, out, 3, 1))),
        shortcut(conv(in, out, 1, stride)),
        norm1(register_module("norm1", nn::BatchNorm2d(out))),
        norm2(register_module("norm2", nn::BatchNorm2d(out))),
        shortcut_norm(out),
        direct(in == out && stride == 1) {
    if (direct) return;
    register_module("shortcut", shortcut);
    register_module("shortcut_norm", shortcut_norm);
  }
  Tensor forward(const Tensor& x) {
    const Tensor y = norm2(conv2(torch::relu(norm1(conv1(x)))));
    return torch::relu(y + (direct ? x : shortcut_norm(shortcut(x))));
  }
};
TORCH_MODULE(Basic);

struct ResNet18Impl : nn::Module {
  nn::Conv2d stem = conv(3, 64, 3, 1);
  nn::BatchNorm2d norm{64};
  std::vector<Basic> blocks;
  nn::Linear fc{512, 10};

  ResNet18Impl() {
    register_module("stem", stem);
    register_module("norm", norm);
    int64_t in = 64;
    for (int stage = 0; stage < 4; ++stage)
      for (int k = 0; k < 2; ++k) {
        const int64_t out = int64_t(64) << stage;
        blocks.push_back(register_module("block" + std::to_string(blocks.size()),
                                         Basic(in, out, stage > 0 && k == 0 ? 2 : 1)));
        in = out;
      }
    register_module("fc", fc);
  }
  Tensor forward(const Tensor& x) {
    Tensor y = torch::relu(norm(stem(x)));
    for (Basic& block : blocks) y = block(y);
    return fc(torch::adaptive_avg_pool2d(y, {1, 1}).flatten(1));
  }
};
TORCH_MODULE(ResNet18);

Workload resnet18() {
  ResNet18 net;
  const Tensor x = torch::randn({64, 3, 32, 32}), y = labels(10, 64);
  return make(
      5, [=]() mutable { return F::cross_entropy(net(x), y); },
      torch::optim::SGD(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9)));
}

struct Entry {
  const char* name;
  Workload (*make)();
};
constexpr Entry kEntries[] = {{"peaks", peaks},
                              {"keras_cnn", keras_cnn},
                              {"article_cnn_8", [] { return article_cnn(8); }},
                              {"article_cnn_128", [] { return article_cnn(128); }},
                              {"lstm_lm", lstm_lm},
                              {"gpt", gpt},
                              {"resnet18", resnet18}};

}  // namespace

int main(int argc, char** argv) {
  int64_t steps = 0;
  std::vector<std::string> chosen;
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], "--steps=", 8) == 0)
      steps = std::atoll(argv[i] + 8);
    else
      chosen.emplace_back(argv[i]);
  }
  for (const Entry& entry : kEntries) {
    if (!chosen.empty() && std::find(chosen.begin(), chosen.end(), entry.name) == chosen.end())
      continue;
    torch::manual_seed(1);
    Workload work = entry.make();
    bench::time_training(entry.name, steps > 0 ? steps : work.steps, Step{work, {}});
  }
}
