// Spellings that users of PyTorch, libtorch, Keras and Flux type first for layers, losses and
// models. Each expectation is one guess, written before the headers were read. nn_refused.txt has
// the guesses that do not compile, with the line that the compiler answers.
#include <gtest/gtest.h>

#include <sstream>

#include "core/cuda.h"
#include "core/tape/recording.h"
#include "io/safetensors.h"
#include "nn/activation.h"
#include "nn/attention.h"
#include "nn/conv.h"
#include "nn/distributions/distributions.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/function_transforms.h"
#include "nn/functional_call.h"
#include "nn/image.h"
#include "nn/linear.h"
#include "nn/loss.h"
#include "nn/norm.h"
#include "nn/recurrent.h"
#include "nn/sequential.h"
#include "nn/summary.h"
#include "nn/transformer.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "optim/clip.h"
#include "optim/optimizers.h"
#include "tests/temp_dir.h"

namespace F = tapegrad::nn::functional;

namespace tapegrad {
namespace {

Shape shape(std::initializer_list<int64_t> sizes) { return Shape(sizes); }

TEST(FirstGuess, SizesAndNamedOptions) {
  EXPECT_FALSE(nn::LayerNorm(64, {.elementwise_affine = false}).weight.defined());
  EXPECT_FALSE(nn::LayerNorm({4, 64}, {.bias = false}).bias.defined());
  EXPECT_EQ(nn::RMSNorm(64, {.eps = 1e-6}).weight.shape(), shape({64}));
  EXPECT_EQ(nn::InstanceNorm2d(64, {.affine = true}).weight.shape(), shape({64}));
  EXPECT_FALSE(nn::GroupNorm(8, 64, {.affine = false}).weight.defined());
  const Variable image = randn({1, 2, 8, 8});
  EXPECT_EQ(nn::MaxPool2d(3, {.stride = 2, .padding = 1})(image).shape(), shape({1, 2, 4, 4}));
  EXPECT_EQ(nn::MaxPool2d({.kernel_size = 2, .stride = {2, 1}})(image).shape(),
            shape({1, 2, 4, 7}));
  EXPECT_EQ(nn::AvgPool2d({2, 4}, {.stride = 2})(image).shape(), shape({1, 2, 4, 3}));
}

TEST(FirstGuess, Layers) {
  EXPECT_EQ(nn::Linear(784, 10)(ones({2, 784})).shape(), shape({2, 10}));
  EXPECT_FALSE(nn::Linear(784, 10, false).bias.defined());
  EXPECT_EQ(nn::Linear(784, 10)->weight.shape(), shape({10, 784}));
  EXPECT_EQ(nn::Linear(784, 10)->forward(ones({2, 784})).shape(), shape({2, 10}));
  EXPECT_EQ(nn::Conv1d(4, 8, 5)(ones({2, 4, 9})).shape(), shape({2, 8, 5}));
  EXPECT_EQ(nn::Conv2d(1, 32, 3)(ones({2, 1, 28, 28})).shape(), shape({2, 32, 26, 26}));
  EXPECT_EQ(nn::Conv2d(1, 32, 3, 1, 1)(ones({2, 1, 28, 28})).shape(), shape({2, 32, 28, 28}));
  EXPECT_EQ(nn::Conv2d(1, 8, {3, 5})(ones({2, 1, 9, 9})).shape(), shape({2, 8, 7, 5}));
  EXPECT_EQ(nn::Conv2d(4, 8, 3, 2, 1, 1, 4)(ones({2, 4, 8, 8})).shape(), shape({2, 8, 4, 4}));
  EXPECT_EQ(nn::Conv3d(1, 2, 3)(ones({1, 1, 5, 5, 5})).shape(), shape({1, 2, 3, 3, 3}));
  EXPECT_EQ(nn::ConvTranspose2d(8, 4, 2, 2)(ones({1, 8, 5, 5})).shape(), shape({1, 4, 10, 10}));
  EXPECT_EQ(nn::BatchNorm1d(32)(randn({4, 32})).shape(), shape({4, 32}));
  EXPECT_EQ(nn::BatchNorm2d(32)(randn({2, 32, 4, 4})).shape(), shape({2, 32, 4, 4}));
  EXPECT_EQ(nn::BatchNorm2d(32, 1e-3, 0.01).running_mean.shape(), shape({32}));
  EXPECT_EQ(nn::InstanceNorm2d(8)(randn({2, 8, 4, 4})).shape(), shape({2, 8, 4, 4}));
  EXPECT_EQ(nn::LayerNorm(64)(randn({2, 64})).shape(), shape({2, 64}));
  EXPECT_EQ(nn::LayerNorm(64, 1e-6).weight.shape(), shape({64}));
  EXPECT_EQ(nn::LayerNorm({4, 64})(randn({2, 4, 64})).shape(), shape({2, 4, 64}));
  EXPECT_EQ(nn::GroupNorm(4, 32)(randn({2, 32, 3, 3})).shape(), shape({2, 32, 3, 3}));
  EXPECT_EQ(nn::RMSNorm(64)(randn({2, 64})).shape(), shape({2, 64}));
  EXPECT_EQ(nn::Dropout(0.5)(ones({3})).shape(), shape({3}));
  EXPECT_EQ(nn::Dropout()(ones({3})).shape(), shape({3}));
  EXPECT_EQ(nn::Dropout2d(0.1)(ones({1, 2, 3, 3})).shape(), shape({1, 2, 3, 3}));
  EXPECT_EQ(nn::MaxPool2d(2)(ones({1, 2, 8, 8})).shape(), shape({1, 2, 4, 4}));
  EXPECT_EQ(nn::MaxPool2d(3, 2, 1)(ones({1, 2, 8, 8})).shape(), shape({1, 2, 4, 4}));
  EXPECT_EQ(nn::AvgPool2d(2, 2)(ones({1, 2, 8, 8})).shape(), shape({1, 2, 4, 4}));
  EXPECT_EQ(nn::AdaptiveAvgPool2d(1)(ones({1, 2, 8, 8})).shape(), shape({1, 2, 1, 1}));
  EXPECT_EQ(nn::Embedding(1000, 64)(zeros({2, 5}, {.dtype = i64})).shape(), shape({2, 5, 64}));
  EXPECT_EQ(nn::Embedding(10, 3, 0).weight.shape(), shape({10, 3}));
  EXPECT_EQ(nn::Flatten()(ones({2, 3, 4})).shape(), shape({2, 12}));
  EXPECT_EQ(nn::Unflatten(1, {3, 4})(ones({2, 12})).shape(), shape({2, 3, 4}));
  EXPECT_EQ(nn::PixelShuffle(2)(ones({1, 4, 2, 2})).shape(), shape({1, 1, 4, 4}));
  EXPECT_EQ(nn::ZeroPad2d(1)(ones({1, 1, 2, 2})).shape(), shape({1, 1, 4, 4}));
  EXPECT_EQ(nn::ReLU()(-ones({2})).to_vector<float>(), (std::vector<float>{0, 0}));
  EXPECT_EQ(nn::Softmax(1)(ones({1, 2})).to_vector<float>(), (std::vector<float>{0.5f, 0.5f}));
  EXPECT_EQ(nn::LeakyReLU(0.5)(-ones({1})).item(), -0.5);
  EXPECT_EQ(nn::PReLU()(-ones({1})).item(), -0.25);
  for (nn::AnyModule layer : nn::ModuleList{nn::GELU(), nn::Sigmoid(), nn::Tanh(), nn::ELU(),
                                            nn::SiLU(), nn::LogSoftmax(1), nn::Identity()})
    EXPECT_EQ(layer(ones({2, 3})).shape(), shape({2, 3}));
}

TEST(FirstGuess, SequenceLayers) {
  const Variable x = randn({5, 2, 10});
  nn::LSTM lstm(10, 20);
  auto [output, h, c] = lstm(x);
  EXPECT_EQ(output.shape(), shape({5, 2, 20}));
  EXPECT_EQ(h.shape(), shape({1, 2, 20}));
  EXPECT_EQ(c.shape(), shape({1, 2, 20}));
  auto [again, h1, c1] = lstm(x, h, c);
  EXPECT_EQ(again.shape(), shape({5, 2, 20}));
  EXPECT_EQ(std::get<0>(lstm(x)).shape(), shape({5, 2, 20}));
  EXPECT_EQ(lstm(x)[1].shape(), shape({1, 2, 20}));
  const std::vector<Variable> list = lstm(x);
  EXPECT_EQ(list.size(), 3u);
  EXPECT_EQ(nn::LSTM(10, 20, 2)(x)[2].shape(), shape({2, 2, 20}));
  auto [y, state] = nn::GRU(10, 20)(x);
  EXPECT_EQ(state.shape(), shape({1, 2, 20}));
  EXPECT_EQ(nn::RNN(10, 20)(x)[0].shape(), shape({5, 2, 20}));
  const Variable tokens = randn({7, 2, 64});
  nn::MultiheadAttention attention(64, 8);
  EXPECT_EQ(attention(tokens, tokens, tokens).shape(), shape({7, 2, 64}));
  EXPECT_EQ(std::get<0>(attention(tokens, tokens, tokens)).shape(), shape({7, 2, 64}));
  EXPECT_EQ(std::get<1>(attention(tokens, tokens, tokens)).shape(), shape({2, 7, 7}));
  nn::TransformerEncoderLayer layer(64, 8);
  EXPECT_EQ(layer(tokens).shape(), shape({7, 2, 64}));
  nn::TransformerEncoder encoder(nn::TransformerEncoderLayer(64, 8, 128), 3);
  EXPECT_EQ(encoder(tokens).shape(), shape({7, 2, 64}));
  EXPECT_EQ(encoder.parameters().size(), 3 * layer.parameters().size());
}

TEST(FirstGuess, CellsAndPackedSequences) {
  const Variable x = randn({3, 10});
  auto [h, c] = nn::LSTMCell(10, 20)(x);
  EXPECT_EQ(h.shape(), shape({3, 20}));
  EXPECT_EQ(c.shape(), shape({3, 20}));
  EXPECT_EQ(nn::GRUCell(10, 20)(x).shape(), shape({3, 20}));
  EXPECT_EQ(nn::RNNCell(10, 20)(x, h).shape(), shape({3, 20}));
  const std::vector<Variable> sequences = {randn({2, 10}), randn({5, 10})};
  const Variable padded = nn::pad_sequence(sequences, true);
  EXPECT_EQ(padded.shape(), shape({2, 5, 10}));
  nn::GRU gru({.input_size = 10, .hidden_size = 20, .batch_first = true});
  auto [packed, h_n] = gru(nn::pack_padded_sequence(padded, {2, 5}, true));
  EXPECT_EQ(h_n.shape(), shape({1, 2, 20}));
  auto [output, lengths] = nn::pad_packed_sequence(packed);
  EXPECT_EQ(output.shape(), shape({2, 5, 20}));
  const Variable same = nn::pad_sequence(sequences, {.batch_first = true});
  EXPECT_EQ(same.to_vector<float>(), padded.to_vector<float>());
  const auto by_name = nn::pack_padded_sequence(same, tensor({2, 5}),
                                                {.batch_first = true, .enforce_sorted = false});
  EXPECT_EQ(by_name.lengths, packed.lengths);
}

TEST(FirstGuess, Distributions) {
  using distributions::Categorical, distributions::Normal;
  const Variable logits = zeros({4, 2});
  Categorical policy({.logits = logits});
  EXPECT_EQ(policy.sample().shape(), shape({4}));
  EXPECT_NEAR(policy.log_prob(policy.sample()).to_vector<double>()[0], -0.6931, 1e-4);
  EXPECT_NEAR(mean(policy.entropy()).item(), 0.6931, 1e-4);
  EXPECT_EQ(Categorical(ones({3})).sample({7}).shape(), shape({7}));
  EXPECT_EQ(Normal(0.0, 1.0).rsample({3}).shape(), shape({3}));
  EXPECT_EQ(kl_divergence(Normal(0.0, 1.0), Normal(0.0, 1.0)).item(), 0);
  EXPECT_EQ(distributions::Beta(1.0, 1.0).log_prob(full({}, 0.5)).item(), 0);
}

TEST(FirstGuess, Losses) {
  const Variable x = randn({4, 3}), y = tensor({0, 2, 1, 1}, {.dtype = i64}), t = ones({4, 3});
  nn::CrossEntropyLoss criterion;
  const double loss = criterion(x, y).item();
  EXPECT_EQ(nn::CrossEntropyLoss()(x, y).item(), loss);
  EXPECT_EQ(cross_entropy(x, y).item(), loss);
  EXPECT_EQ(F::cross_entropy(x, y).item(), loss);
  EXPECT_EQ(nn::functional::relu(-t).to_vector<float>(), std::vector<float>(12, 0.0f));
  EXPECT_NEAR(nll_loss(log_softmax(x, 1), y).item(), loss, 1e-6);
  EXPECT_NEAR(nn::NLLLoss()(F::log_softmax(x, 1), y).item(), loss, 1e-6);
  EXPECT_EQ(nn::MSELoss()(x, x).item(), 0);
  EXPECT_EQ(mse_loss(x, x).item(), 0);
  EXPECT_EQ(nn::L1Loss()(t, t).item(), 0);
  EXPECT_EQ(nn::SmoothL1Loss()(t, t).item(), 0);
  EXPECT_EQ(nn::HuberLoss()(t, t).item(), 0);
  EXPECT_EQ(nn::BCELoss()(t, t).item(), 0);
  EXPECT_GT(nn::BCEWithLogitsLoss()(x, t).item(), 0);
  EXPECT_GT(binary_cross_entropy_with_logits(x, t).item(), 0);
  EXPECT_GT(nn::CrossEntropyLoss({.label_smoothing = 0.1})(x, y).item(), 0);
}

struct Net : nn::Model<Net> {
  nn::Linear fc1{4, 8};
  nn::Linear fc2 = nn::Linear(8, 2);
  nn::Dropout drop{0.5};
  nn::Parameter scale{ones({2})};
  void members(nn::Members& m) override { m("fc1", fc1)("fc2", fc2)("drop", drop)("scale", scale); }
  Variable forward(const Variable& x) const { return fc2->forward(drop(relu(fc1(x)))) * scale; }
};

TEST(FirstGuess, Models) {
  Net model;
  Net* net = &model;
  const Variable x = randn({3, 4});
  EXPECT_EQ(model(x).shape(), shape({3, 2}));
  EXPECT_EQ(model.forward(x).shape(), shape({3, 2}));
  EXPECT_EQ(model->forward(x).shape(), shape({3, 2}));
  EXPECT_EQ(net->forward(x).shape(), shape({3, 2}));
  model.train();
  EXPECT_TRUE(model.is_training());
  model.eval();
  EXPECT_FALSE(model.drop.is_training());
  EXPECT_EQ(model(x).to_vector<float>(), model(x).to_vector<float>());
  model.train(true);
  EXPECT_EQ(&model.to("cpu"), &model);
  EXPECT_EQ(model.to(cpu).fc1.weight.device(), cpu);
  EXPECT_EQ(model.to(f64).fc1.weight.dtype(), f64);
  model.to(f32);
  EXPECT_EQ(cuda::is_available(), cuda::device_count() > 0);
  if (!cuda::is_available()) {
    EXPECT_THROW(model.to("cuda"), DeviceError);
    EXPECT_THROW(model.cuda(), DeviceError);
  }

  int64_t count = 0;
  for (auto& p : model.parameters()) count += p.numel();
  EXPECT_EQ(count, 4 * 8 + 8 + 8 * 2 + 2 + 2);
  std::vector<std::string> names;
  for (auto& [name, p] : model.named_parameters()) names.push_back(name);
  EXPECT_EQ(names.back(), "scale");
  EXPECT_EQ(model.named_modules().size(), 4u);
  EXPECT_TRUE(model.buffers().empty());
  sum(model(x)).backward();
  EXPECT_TRUE(model.fc1.weight.grad().defined());
  model.zero_grad();
  EXPECT_FALSE(model.fc1.weight.grad().defined());
  model.apply([](nn::Module& m) {
    if (auto* layer = dynamic_cast<nn::Linear*>(&m)) nn::init::constant_(layer->weight, 2);
  });
  EXPECT_EQ(model.fc2.weight.to_vector<float>()[0], 2);
  for (auto& p : model.parameters()) p.requires_grad_(false);
  model.requires_grad_(true);
  nn::init::xavier_uniform_(model.fc1.weight);
  nn::init::kaiming_normal_(model.fc1.weight);
  nn::init::normal_(model.fc1.weight, 0, 0.02);
  nn::init::zeros_(model.fc1.bias);
  std::ostringstream text;
  text << model;
  EXPECT_NE(text.str().find("(fc1): Linear(in_features=4, out_features=8)"), std::string::npos);
  EXPECT_NE(nn::summary(model, {4}).find("Total parameters: 60"), std::string::npos);
  const Variable y = nn::functional_call(model, {{"scale", zeros({2})}}, x);
  EXPECT_EQ(sum(y * y).item(), 0);
  EXPECT_EQ(vmap([](const Variable& row) { return sum(row); }, ones({3, 4})).shape(), shape({3}));
  Net copy = model.clone();
  EXPECT_FALSE(copy.fc1.weight.is_same(model.fc1.weight));
}

TEST(FirstGuess, Containers) {
  nn::Sequential model(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2));
  EXPECT_EQ(model(ones({3, 4})).shape(), shape({3, 2}));
  EXPECT_EQ(model->forward(ones({3, 4})).shape(), shape({3, 2}));
  nn::Sequential braces{nn::Linear(4, 8), nn::ReLU()};
  EXPECT_EQ(braces.size(), 2);
  nn::Sequential nested(model, nn::Softmax(1));
  EXPECT_EQ(nested.named_parameters()[0].name, "0.0.weight");
  model.push_back(nn::Dropout(0.1));
  EXPECT_EQ(model[0].as<nn::Linear>().weight.shape(), shape({8, 4}));

  struct Tower : nn::Model<Tower> {
    nn::ModuleList blocks;
    std::vector<nn::Linear> heads;
    std::map<std::string, nn::Linear> named{{"a", nn::Linear(4, 4)}, {"b", nn::Linear(4, 4)}};
    std::optional<nn::Linear> extra, none;
    std::array<nn::Linear, 2> pair{nn::Linear(4, 4), nn::Linear(4, 4)};
    std::shared_ptr<nn::Linear> shared = std::make_shared<nn::Linear>(4, 4);
    std::vector<Variable> scales{nn::Parameter(ones({4}))};
    Tower() {
      for (int i = 0; i < 2; ++i) blocks.push_back(nn::Linear(4, 4));
      for (int i = 0; i < 2; ++i) heads.emplace_back(4, 4);
      extra.emplace(4, 4);
    }
    void members(nn::Members& m) override {
      m("blocks", blocks)("heads", heads)("named", named)("extra", extra)("none", none);
      m("pair", pair)("shared", shared)("scales", scales);
    }
    Variable forward(const Variable& x) const {
      Variable y = x;
      for (auto& block : blocks) y = relu(block(y));
      return named.at("a")((*shared)(heads[0](y))) * scales[0];
    }
  };
  Tower tower;
  EXPECT_EQ(tower(ones({2, 4})).shape(), shape({2, 4}));
  std::vector<std::string> names;
  for (auto& [name, p] : tower.named_parameters())
    if (name.find("bias") == name.npos) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"blocks.0.weight", "blocks.1.weight", "heads.0.weight",
                                             "heads.1.weight", "named.a.weight", "named.b.weight",
                                             "extra.weight", "pair.0.weight", "pair.1.weight",
                                             "shared.weight", "scales.0"}));
  Tower copy = tower.clone();
  EXPECT_FALSE(copy.shared->weight.is_same(tower.shared->weight));
  EXPECT_FALSE(copy.scales[0].is_same(tower.scales[0]));
}

TEST(FirstGuess, SavingAndLoading) {
  const testing::TempDir dir;
  const std::string path = (dir / "model.safetensors").string();
  Net model, other;
  save(path, model);
  save(model, path);
  load(other, path);
  load(path, other);
  EXPECT_EQ(other.fc1.weight.to_vector<float>(), model.fc1.weight.to_vector<float>());
  save(model.state_dict(), path);
  other.load_state_dict(load(path));
  TensorMap part = model.state_dict();
  part.erase("scale");
  EXPECT_THROW(other.load_state_dict(part), ArgumentError);
  const auto report = other.load_state_dict(part, false);
  EXPECT_EQ(report.missing_keys, std::vector<std::string>{"scale"});
  EXPECT_TRUE(report.unexpected_keys.empty());
  const Variable x = randn({3}), y = randn({2});
  save(path, {{"x", x}, {"y", y}});
  EXPECT_EQ(load(path).at("x").shape(), shape({3}));
  optim::Adam adam(model.parameters(), 1e-3);
  save(adam, path);
  load(adam, path);
}

}  // namespace
}  // namespace tapegrad
