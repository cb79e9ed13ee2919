// First guesses about whole programs of users of PyTorch and libtorch, word for word:
// groups of parameters, dictionaries of parameters, states of an LSTM, user-written loops.
#include <csignal>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/first_guess/guess.h"
#include "tests/temp_dir.h"

using namespace tapegrad;

// Names that a program defines for itself, next to `using namespace tapegrad`.
struct EMA {
  double decay = 0.9;
};
struct Net : nn::Model<Net> {
  nn::Linear fc{4, 2};
  nn::BatchNorm1d bn{2};
  void members(nn::Members& m) override { m("fc", fc)("bn", bn); }
  Variable forward(const Variable& x) const { return bn(fc(x)); }
};
double train(Net& net, DataLoader& loader, optim::Optimizer& optimizer, int epoch) {
  double total = epoch;
  for (auto& [x, y] : loader) {
    optimizer.zero_grad();
    const Variable loss = cross_entropy(net(x), y);
    loss.backward();
    optimizer.step();
    total += loss.item();
  }
  return total;
}
double train(Net& net, DataLoader& loader, optim::Optimizer& optimizer, nn::CrossEntropyLoss&) {
  return train(net, loader, optimizer, 200);
}

namespace {

// No namespace of the library hides a function of the C library.
TEST(WordForWord, FunctionsOfTheCLibraryStayVisible) {
  const auto before = signal(SIGUSR1, SIG_IGN);
  EXPECT_EQ(raise(SIGUSR1), 0);
  EXPECT_EQ(signal(SIGUSR1, before), SIG_IGN);
  EXPECT_GT(time(nullptr), 0);
  EXPECT_EQ(div(7, 2).rem, 1);
}

TEST(WordForWord, TrainOfTheProgram) {
  Net net;
  optim::SGD sgd(net.parameters(), 0.1);
  TensorDataset data(randn({8, 4}), randint(0, 2, {8}));
  DataLoader loader(data, 4, true);
  nn::CrossEntropyLoss criterion;
  EXPECT_GT(train(net, loader, sgd, 100), 100);
  EXPECT_GT(train(net, loader, sgd, criterion), 200);
  const EMA ema;
  GUESS("0.9", ema.decay);
  // The library's train(), which takes a function of (model, x, y).
  const std::vector<Example> examples = {{randn({8, 4}), randint(0, 2, {8})}};
  const std::vector<std::pair<Variable, int64_t>> pairs = {{randn({8, 4}), 1}};
  EXPECT_GT(::tapegrad::train(net, examples, sgd,
                              [](auto& m, auto& x, auto& y) { return cross_entropy(m(x), y); }),
            0);
  EXPECT_GT(
      ::tapegrad::train(net, pairs, sgd,
                        [](Net& m, const Variable& x, int64_t) { return m(x).square().mean(); }),
      0);
}

TEST(WordForWord, DictionaryOfParameters) {
  Net net;
  auto params = net.named_parameters();
  GUESS("[2, 4]", params["fc.weight"].sizes());
  GUESS("fc.weight", params[0].key());
  GUESS("true", params.contains("bn.bias") && !params.contains("bn.running_mean"));
  if (auto* p = params.find("fc.bias")) p->data().fill_(3);
  GUESS("[3, 3]", net.fc.bias);
  GUESS("true", params.find("none") == nullptr);
  GUESS("4", params.keys().size());
  GUESS("[2, 4]", params.values()[0].sizes());
  GUESS("[2]", net.named_buffers()["bn.running_mean"].sizes());
  try {
    params["fc.wieght"];
    ADD_FAILURE();
  } catch (const ArgumentError& error) {
    EXPECT_NE(std::string(error.what()).find("fc.weight, fc.bias"), std::string::npos);
  }
  std::string names;
  for (auto& child : net.named_children()) names += child.key() + child.value()->kind();
  GUESS("fcLinearbnBatchNorm1d", names);
  GUESS("3", net.modules().size());
  GUESS("2", net.modules(/*include_self=*/false).size());
}

TEST(WordForWord, LayersOfASequentialByName) {
  nn::Sequential net({{"fc", nn::Linear(4, 3)}, {"act", nn::ReLU()}});
  GUESS("[3, 4]", net["fc"].weight().sizes());
  GUESS("[3]", net[0].bias().sizes());
  net[0].weight().data().fill_(1);
  GUESS("12", net.at<nn::Linear>(0).weight.sum());
  EXPECT_THROW(net["none"], ArgumentError);
  EXPECT_THROW(net[1].weight(), ArgumentError);
  for (auto& layer : net) GUESS(layer.is<nn::Linear>() ? "Linear" : "ReLU", layer->kind());
  for (auto& layer : net[Slice(0, 1)]) GUESS("[3, 4]", layer.weight().sizes());
  net.replace(-2, nn::Linear(4, 7));
  GUESS("[1, 7]", net(ones({1, 4})).sizes());
  GUESS("fc.weight", net.named_parameters()[0].key());
  EXPECT_THROW(net.replace(2, nn::ReLU()), IndexError);
  nn::ModuleList blocks;
  blocks.extend({nn::Linear(2, 2), nn::Tanh()});
  GUESS("2", blocks.size());
  nn::ModuleDict heads;
  heads.insert("a", nn::Linear(2, 1));
  for (auto& [name, head] : heads.items()) GUESS("a1", name + std::to_string(head.bias().numel()));
}

TEST(WordForWord, StatesOfAnLstm) {
  nn::LSTM lstm(4, 6);
  const Variable x = randn({5, 3, 4}), h0 = ones({1, 3, 6}), c0 = zeros({1, 3, 6});
  const Variable expected = lstm(x, h0, c0)[0];
  auto [out, h, c] = lstm(x, std::make_tuple(h0, c0));
  GUESS("true", equal(expected, out));
  GUESS("true", equal(expected, lstm(x, std::make_pair(h0, c0))[0]));
  GUESS("true", equal(expected, lstm(x, {h0, c0})[0]));
  auto [packed, h2, c2] = lstm(nn::pack_padded_sequence(x, {5, 5, 5}), std::make_tuple(h0, c0));
  GUESS("true", allclose(h, h2));
  nn::LSTMCell cell(4, 6);
  Variable hx = zeros({3, 6}), cx = zeros({3, 6});
  const Variable one_step = cell(x[0], hx, cx)[0];
  std::tie(hx, cx) = cell(x[0], std::make_tuple(hx, cx));
  GUESS("true", equal(one_step, hx));
  nn::RNN rnn(torch::nn::RNNOptions(4, 6).nonlinearity(torch::kReLU));
  GUESS("true", (std::get<0>(rnn(x)) >= 0).all());
  nn::RNN with_tanh(torch::nn::RNNOptions(4, 6).nonlinearity(torch::kTanh));
}

TEST(WordForWord, NamedChoicesOfLibtorch) {
  nn::EmbeddingBag bag(torch::nn::EmbeddingBagOptions(5, 2).mode(torch::kSum));
  nn::init::ones_(bag.weight);
  GUESS("[[2, 2]]", bag(tensor({{1, 3}})));
  nn::EmbeddingBag mean(torch::nn::EmbeddingBagOptions(5, 2).mode(torch::kMean));
  nn::EmbeddingBag max(torch::nn::EmbeddingBagOptions(5, 2).mode(torch::kMax));
  GUESS("18", torch::nn::functional::mse_loss(
                  zeros({2}), full({2}, 3.0),
                  torch::nn::functional::MSELossFuncOptions().reduction(torch::kSum)));
  nn::Linear fc(4, 3);
  nn::init::kaiming_normal_(fc.weight, 0.0, torch::kFanOut, torch::kReLU);
  nn::init::kaiming_uniform_(fc.weight, 0.0, torch::kFanIn, torch::kLeakyReLU);
  const auto options = torch::TensorOptions().dtype(torch::kFloat64).device(torch::kCPU, 0);
  GUESS("float64", zeros({2}, options).dtype());
  GUESS("float64", ones({2}).to(options).dtype());
  GUESS("float64", ones({2}).toType(torch::kDouble).dtype());
  GUESS("true", ones({2}).device().is_cpu());
}

TEST(WordForWord, GroupsOfLibtorch) {
  nn::Linear fc(4, 2);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<torch::Tensor>{fc.weight},
                      std::make_unique<torch::optim::AdamWOptions>(
                          torch::optim::AdamWOptions(0.5).weight_decay(0.1).betas({0.8, 0.9})));
  groups.emplace_back(std::vector<torch::Tensor>{fc.bias});
  torch::optim::AdamW adam(groups, torch::optim::AdamWOptions(0.25).weight_decay(0));
  GUESS("0.5", adam.param_groups()[0].lr());
  GUESS("0.1", adam.param_groups()[0].weight_decay());
  GUESS("0.25", adam.param_groups()[1].lr());
  GUESS("0", adam.param_groups()[1].weight_decay());
}

TEST(WordForWord, ScalerOfADevice) {
  nn::Linear fc(2, 1);
  optim::SGD sgd(fc.parameters(), 0.1);
  torch::amp::GradScaler scaler("cpu"), small("cuda", {.init_scale = 2.0});
  GradScaler off({.enabled = false});
  GUESS("2", small.get_scale());
  scaler.scale(fc(ones({1, 2})).sum()).backward();
  GUESS("true", scaler.step(sgd));
  scaler.update();
  EXPECT_THROW(GradScaler("cup"), ArgumentError);
}

TEST(WordForWord, BackwardByPosition) {
  const Variable x = tensor({1.f, 2.f}).requires_grad_();
  const Variable y = (x * x).sum();
  y.backward({}, /*retain_graph=*/true, /*create_graph=*/true);
  GUESS("true", x.grad().requires_grad());
  x.zero_grad();
  y.backward(tensor(2.f), /*retain_graph=*/true);
  GUESS("[4, 8]", x.grad());
  x.set_data(tensor({5.f, 6.f, 7.f}));
  GUESS("[5, 6, 7]", x);
  GUESS("true", x.requires_grad());
}

TEST(WordForWord, MoreOps) {
  GUESS("[1, 3, 3]", torch::repeat_interleave(tensor({1, 2, 3}), tensor({1, 0, 2})));
  GUESS("[1, 2, 3, 4, 4]", tensor({{1, 2}, {3, 4}}).repeat_interleave(tensor({1, 1, 1, 2})));
  GUESS("[3, -4]", tensor({7, -7}).div(2, "floor"));
  GUESS("[3, -3]", tensor({7, -7}).div(2, "trunc"));
  GUESS("[2, 3]", torch::broadcast_shapes({1, 3}, {2, 1}));
  EXPECT_THROW(torch::broadcast_shapes({2}, {3}), ShapeError);
  const Variable x = randn({20, 5}), centered = x - x.mean(0, true);
  auto [u, s, v] = torch::pca_lowrank(x, 2);
  GUESS("[20, 2][2][5, 2]", torch::str(u.shape(), s.shape(), v.shape()));
  GUESS("true", allclose(centered.matmul(v), u * s, 1e-4, 1e-5));
  GUESS("[5]", torch::pca_lowrank(x).s.shape());
  EXPECT_THROW(torch::pca_lowrank(x, 6), ArgumentError);
}

TEST(WordForWord, Iterators) {
  TensorDataset data(arange(6).to(f32), arange(6));
  torch::utils::data::DataLoader loader(data, {.batch_size = 2});
  auto [x, y] = next(iter(loader));
  GUESS("[0, 1]", y);
  auto batches = iter(loader);
  int64_t last = 0;
  for (int i = 0; i < 3; ++i) last = next(batches).target[1].item<int64_t>();
  GUESS("5", last);
  EXPECT_THROW(next(batches), IndexError);
  std::vector<std::pair<Variable, int64_t>> items = {{ones({2}), 3}, {ones({2}), 4}};
  ItemLoader of_items(items, {.batch_size = 2});
  auto [images, labels] = next(iter(of_items));
  GUESS("[3, 4]", labels);
  const Variable order = torch::randperm(6);
  DataLoader part(data, {.batch_size = 6, .sampler = SubsetRandomSampler(order.slice(0, 0, 4))});
  GUESS("4", next(iter(part)).target.size(0));
  EXPECT_THROW(SubsetRandomSampler(ones({2})), DTypeError);
  struct Squares : torch::utils::data::Dataset {
    using Dataset::get;
    int64_t size() const override { return 4; }
    data::Example get(int64_t i) const override { return {tensor(i * i), tensor(i)}; }
  };
  torch::utils::data::DataLoader of_squares(Squares(), {.batch_size = 4});
  GUESS("[0, 1, 4, 9]", next(iter(of_squares)).data);
}

TEST(WordForWord, TextsAndChecks) {
  GUESS("step-3.pt", torch::str("step-", 3, ".pt"));
  GUESS("[[1, 0], [0, 1]]", utils::to_categorical(tensor({0, 1}), 2));
  ::testing::internal::CaptureStdout();
  print("loss", 3, ones({2}));
  GUESS("loss3[1, 1]", ::testing::internal::GetCapturedStdout());
  TORCH_CHECK(ones({2}).dim() == 1);
  try {
    TORCH_CHECK(ones({2}).dim() == 2, "a matrix, not ", ones({2}).sizes());
    ADD_FAILURE();
  } catch (const ArgumentError& error) {
    const std::string what = error.what();
    EXPECT_NE(what.find("a matrix, not [2]"), std::string::npos) << what;
    EXPECT_NE(what.find("word_for_word_test.cpp"), std::string::npos) << what;
  }
  if (torch::cuda::is_available()) return;
  try {
    torch::cuda::synchronize();
    ADD_FAILURE();
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("word_for_word_test.cpp"), std::string::npos);
  }
}

TEST(WordForWord, Pruning) {
  namespace prune = torch::nn::utils::prune;
  nn::Linear fc(2, 2);
  optim::SGD sgd(fc.parameters(), 0.5);
  fc.weight.data().copy_(tensor({{1.f, -5.f}, {3.f, -2.f}}));
  const Variable handle = fc.weight;
  prune::l1_unstructured(fc, "weight", 0.5);
  GUESS("[[0, -5], [3, -0]]", fc.weight);
  GUESS("true", prune::is_pruned(fc));
  GUESS("true", fc.named_parameters()["parametrizations.weight.original"].is_same(handle));
  GUESS("[[0, 1], [1, 0]]", fc.named_buffers()["parametrizations.weight.mask"]);
  // An optimizer that was made before the pruning trains the weights that pruning kept.
  sgd.zero_grad();
  fc(ones({1, 2})).sum().backward();
  sgd.step();
  fc(ones({1, 2}));
  GUESS("[[0, -5.5], [2.5, -0]]", fc.weight);
  nn::Linear copy = fc.clone();
  prune::l1_unstructured(fc, "weight", 1);
  GUESS("[[0, -5.5], [0, -0]]", fc.weight);
  GUESS("true", equal(copy(ones({1, 2})) - copy.bias, tensor({{-5.5f, 2.5f}})));
  prune::remove(fc, "weight");
  GUESS("[[0, -5.5], [0, -0]]", fc.weight);
  GUESS("true", fc.weight.is_same(handle) && !prune::is_pruned(fc));
  nn::Conv2d conv(3, 8, 3);
  prune::random_unstructured(conv, "weight", 0.25);
  GUESS("54", (conv.weight == 0).sum());
  EXPECT_THROW(prune::l1_unstructured(fc, "weight", 5), ArgumentError);
  EXPECT_THROW(prune::l1_unstructured(fc, "weight", 1.5), ArgumentError);
  EXPECT_THROW(prune::l1_unstructured(fc, "bias", 1), ArgumentError);
  EXPECT_THROW(prune::remove(fc, "weight"), ArgumentError);
}

TEST(WordForWord, MnistOfLibtorch) {
  if (!std::filesystem::exists(kFashionMnistDir))
    GTEST_SKIP() << "not installed: " << kFashionMnistDir;
  using torch::data::datasets::MNIST;
  GUESS("10000", *MNIST(kFashionMnistDir, MNIST::Mode::kTest).size());
  auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
      MNIST(kFashionMnistDir)
          .map(torch::data::transforms::Normalize<>(0.1307, 0.3081))
          .map(torch::data::transforms::Stack<>()),
      /*batch_size=*/64);
  auto batch = *loader->begin();
  GUESS("[64, 1, 28, 28]", batch.data.sizes());
  GUESS("[64]", batch.target.sizes());
  EXPECT_NEAR(-0.1307 / 0.3081, batch.data.min().item(), 1e-5);
}

}  // namespace
