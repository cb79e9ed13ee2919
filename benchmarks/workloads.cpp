#include "benchmarks/workloads.h"

#include <cmath>
#include <limits>

#include "nn/activation.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/init.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/recurrent.h"
#include "nn/sequential.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/index.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/pool.h"
#include "ops/random.h"
#include "ops/softmax.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "optim/optimizers.h"

namespace tapegrad::bench {
namespace {

/// Returns a shared model, which several closures can hold.
template <typename Model>
std::shared_ptr<Model> shared(Model model) {
  return std::make_shared<Model>(std::move(model));
}

/// 40,000 rows in one batch through 171 parameters. The values of the rows do not affect the time.
Workload peaks() {
  const auto net =
      shared(nn::Sequential({nn::Linear({.in_features = 2, .out_features = 20}), nn::ReLU(),
                             nn::Linear({.in_features = 20, .out_features = 5}), nn::ReLU(),
                             nn::Linear({.in_features = 5, .out_features = 1})},
                            {.init = nn::init::keras}));
  const Variable x = rand({40'000, 2}), y = rand({40'000, 1});
  return {200, [=] { return mse_loss((*net)(x), y); }, std::make_unique<optim::Adam>(*net, 0.08),
          net};
}

Workload keras_cnn() {
  const auto net = shared(keras_net());
  const Variable x = randn({128, 1, 28, 28}), y = randint(0, 10, {128});
  return {30, [=] { return cross_entropy((*net)(x), y); },
          std::make_unique<optim::Adadelta>(*net, 1.0), net};
}

Workload article_cnn(int64_t batch) {
  const auto net = shared(nn::Sequential(
      {nn::Conv2d({.in_channels = 1, .out_channels = 10, .kernel_size = 3, .padding = 1}),
       nn::ReLU(), nn::MaxPool2d({.kernel_size = 2}), nn::Flatten(),
       nn::Linear({.in_features = 1960, .out_features = 100}), nn::ReLU(),
       nn::Linear({.in_features = 100, .out_features = 10})}));
  const Variable x = randn({batch, 1, 28, 28}), y = randint(0, 10, {batch});
  return {100, [=] { return cross_entropy((*net)(x), y); },
          std::make_unique<optim::Adam>(*net, 1e-3), net};
}

struct LanguageModel : nn::Model<LanguageModel> {
  static constexpr int64_t kWords = 10'000, kHidden = 256;
  nn::Embedding embedding{{.num_embeddings = kWords, .embedding_dim = kHidden}};
  nn::LSTM lstm{{.input_size = kHidden, .hidden_size = kHidden, .num_layers = 2}};
  nn::Linear out{{.in_features = kHidden, .out_features = kWords}};

  void members(nn::Members& m) override { m("embedding", embedding)("lstm", lstm)("out", out); }
  Variable forward(const Variable& words) const {
    return out(flatten(lstm(embedding(words))[0], 0, 1));
  }
};

Workload lstm_lm() {
  constexpr int64_t kLength = 35, kBatch = 20;
  const auto net = shared(LanguageModel());
  const Variable x = randint(0, LanguageModel::kWords, {kLength, kBatch});
  const Variable y = randint(0, LanguageModel::kWords, {kLength * kBatch});
  return {20, [=] { return cross_entropy((*net)(x), y); }, std::make_unique<optim::SGD>(*net, 0.1),
          net};
}

struct Block : nn::Model<Block> {
  static constexpr int64_t kWidth = 128, kHeads = 4;
  nn::LayerNorm norm1{{.normalized_shape = {kWidth}}}, norm2{{.normalized_shape = {kWidth}}};
  nn::Linear qkv{{.in_features = kWidth, .out_features = 3 * kWidth, .bias = false}};
  nn::Linear proj{{.in_features = kWidth, .out_features = kWidth, .bias = false}};
  nn::Linear up{{.in_features = kWidth, .out_features = 4 * kWidth, .bias = false}};
  nn::Linear down{{.in_features = 4 * kWidth, .out_features = kWidth, .bias = false}};

  void members(nn::Members& m) override {
    m("norm1", norm1)("norm2", norm2)("qkv", qkv)("proj", proj)("up", up)("down", down);
  }
  Variable forward(const Variable& x, const Variable& mask) const {
    const Shape shape = x.shape();
    const auto heads = [&](const Variable& t) {
      return transpose(reshape(t, {shape[0], shape[1], kHeads, kWidth / kHeads}), 1, 2);
    };
    const std::vector<Variable> parts = chunk(qkv(norm1(x)), 3, 2);
    const Variable scores = matmul(heads(parts[0]), transpose(heads(parts[1]), -2, -1)) *
                            (1.0 / std::sqrt(double(kWidth / kHeads)));
    const Variable share =
        softmax(masked_fill(scores, mask, -std::numeric_limits<double>::infinity()), -1);
    const Variable seen = reshape(transpose(matmul(share, heads(parts[2])), 1, 2), shape);
    const Variable y = x + proj(seen);
    return y + down(gelu(up(norm2(y))));
  }
};

struct Gpt : nn::Model<Gpt> {
  static constexpr int64_t kLetters = 65, kLength = 64;
  nn::Embedding letter{{.num_embeddings = kLetters, .embedding_dim = Block::kWidth}};
  nn::Embedding place{{.num_embeddings = kLength, .embedding_dim = Block::kWidth}};
  std::vector<Block> blocks = std::vector<Block>(4);
  nn::LayerNorm norm{{.normalized_shape = {Block::kWidth}}};
  nn::Linear head{{.in_features = Block::kWidth, .out_features = kLetters, .bias = false}};

  void members(nn::Members& m) override {
    m("letter", letter)("place", place)("blocks", blocks)("norm", norm)("head", head);
  }
  Variable forward(const Variable& x) const {
    const Variable places = arange(kLength, {.dtype = i64});
    const Variable later = triu(ones({kLength, kLength}, {.dtype = boolean}), 1);
    Variable y = letter(x) + place(places);
    for (const Block& block : blocks) y = block(y, later);
    return head(norm(y));
  }
};

Workload gpt() {
  constexpr int64_t kBatch = 12, kTokens = kBatch * Gpt::kLength;
  const auto net = shared(Gpt());
  const Variable x = randint(0, Gpt::kLetters, {kBatch, Gpt::kLength});
  const Variable y = randint(0, Gpt::kLetters, {kTokens});
  return {40, [=] { return cross_entropy(flatten((*net)(x), 0, 1), y); },
          std::make_unique<optim::AdamW>(*net, 1e-3), net};
}

struct Basic : nn::Model<Basic> {
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d norm1, norm2;
  nn::Sequential shortcut;  // empty: the shortcut is the input itself

  Basic(int64_t in, int64_t out, int64_t stride)
      : conv1(conv(in, out, 3, stride)),
        conv2(conv(out, out, 3, 1)),
        norm1({.num_features = out}),
        norm2({.num_features = out}) {
    if (in == out && stride == 1) return;
    shortcut.push_back(conv(in, out, 1, stride));
    shortcut.push_back(nn::BatchNorm2d({.num_features = out}));
  }

  void members(nn::Members& m) override {
    m("conv1", conv1)("norm1", norm1)("conv2", conv2)("norm2", norm2)("shortcut", shortcut);
  }
  Variable forward(const Variable& x) const {
    const Variable y = norm2(conv2(relu(norm1(conv1(x)))));
    return relu(y + shortcut(x));
  }
};

struct ResNet18 : nn::Model<ResNet18> {
  nn::Conv2d stem = conv(3, 64, 3, 1);
  nn::BatchNorm2d norm{{.num_features = 64}};
  std::vector<Basic> blocks;
  nn::Linear fc{{.in_features = 512, .out_features = 10}};

  ResNet18() {
    int64_t in = 64;
    for (int stage = 0; stage < 4; ++stage)
      for (int k = 0; k < 2; ++k) {
        const int64_t out = int64_t(64) << stage;
        blocks.emplace_back(in, out, stage > 0 && k == 0 ? 2 : 1);
        in = out;
      }
  }
  void members(nn::Members& m) override {
    m("stem", stem)("norm", norm)("blocks", blocks)("fc", fc);
  }
  Variable forward(const Variable& x) const {
    Variable y = relu(norm(stem(x)));
    for (const Basic& block : blocks) y = block(y);
    return fc(flatten(adaptive_avg_pool2d(y, 1), 1));
  }
};

Workload resnet18() {
  const auto net = shared(ResNet18());
  const Variable x = randn({64, 3, 32, 32}), y = randint(0, 10, {64});
  return {5, [=] { return cross_entropy((*net)(x), y); },
          std::make_unique<optim::SGD>(*net, optim::SGDOptions{.lr = 0.01, .momentum = 0.9}), net};
}

}  // namespace

nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return nn::Conv2d({.in_channels = in,
                     .out_channels = out,
                     .kernel_size = kernel,
                     .stride = stride,
                     .padding = kernel / 2,
                     .bias = false});
}

nn::Sequential keras_net() {
  return nn::Sequential({nn::Conv2d({.out_channels = 32, .kernel_size = 3}), nn::ReLU(),
                         nn::Conv2d({.out_channels = 64, .kernel_size = 3}), nn::ReLU(),
                         nn::MaxPool2d({.kernel_size = 2}), nn::Dropout(0.25), nn::Flatten(),
                         nn::Linear({.out_features = 128}), nn::ReLU(), nn::Dropout(0.5),
                         nn::Linear({.out_features = 10})},
                        {.input_shape = {{1, 28, 28}}, .init = nn::init::keras});
}

const std::vector<WorkloadInfo>& workloads() {
  static const std::vector<WorkloadInfo> all = {
      {"peaks", "2-20-5-1 perceptron, 40,000 rows at once, Adam", peaks},
      {"keras_cnn", "the Keras net of examples/mnist_cnn, batch 128, Adadelta", keras_cnn},
      {"article_cnn_8", "one convolution and two dense layers, batch 8, Adam",
       [] { return article_cnn(8); }},
      {"article_cnn_128", "the same, batch 128", [] { return article_cnn(128); }},
      {"lstm_lm", "two LSTM layers of 256, 10,000 words, 35 steps, batch 20, SGD", lstm_lm},
      {"gpt", "four transformer blocks of 128, 64 letters, batch 12, AdamW", gpt},
      {"resnet18", "ResNet-18 for 32x32 images, batch 64, SGD with momentum", resnet18},
  };
  return all;
}

}  // namespace tapegrad::bench
