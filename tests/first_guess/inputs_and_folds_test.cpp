// First guesses about several inputs, folds, metrics, groups of optimizers, NumPy's names,
// and options of libtorch without `torch::`.

#include "tests/first_guess/guess.h"
#include "tests/temp_dir.h"

using namespace tapegrad;

namespace {

TEST(InputsAndFolds, DataSetsOfThreeTensors) {
  const Variable image = arange(24).reshape({6, 4}).to(f32), age = arange(6).to(f32);
  StackDataset data(image, age, age * 2);
  GUESS("6", data.size());
  auto [train, validation] = random_split(data, {4, 2});
  GUESS("4", train.size());
  GUESS("2", validation.size());
  float total = 0;
  for (auto& [x, a, y] : ItemLoader(train, {.batch_size = 2, .shuffle = true})) {
    GUESS("[2, 4]", x.shape());
    GUESS("true", equal(x.select(1, 0), a * 4));
    GUESS("true", equal(y, 2 * a));
    total += a.sum().item<float>();
  }
  for (auto& [x, a, y] : ItemLoader(validation, {.batch_size = 2})) total += a.sum().item<float>();
  GUESS("15", total);
  EXPECT_THROW(StackDataset(image, age, ones({5})), ShapeError);
  EXPECT_THROW(StackDataset(image, tensor(1.0)), ShapeError);
  EXPECT_THROW(data.get(6), IndexError);
  EXPECT_THROW(random_split(data, {4, 1}), ArgumentError);
}

TEST(InputsAndFolds, FoldsByTensor) {
  TensorDataset data(arange(10).to(f32).unsqueeze(1), arange(10));
  const Variable order = tensor({3, 1, 4, 5, 9, 2, 6, 8, 7, 0});
  Subset part(data, order.slice(0, 0, 3));
  GUESS("3", part.size());
  GUESS("4", part.get(2).target);
  EXPECT_THROW(Subset(data, order == 3), DTypeError);
  EXPECT_THROW(Subset(data, ones({2})), DTypeError);
  EXPECT_THROW(Subset(data, tensor({10})), IndexError);
  GUESS("0", Subset(data, {}).size());
  int64_t tested = 0;
  for (auto [train, test] : KFold(5, {.shuffle = true}).split(10)) tested += int64_t(test.size());
  GUESS("10", tested);
}

TEST(InputsAndFolds, MetricsOfPredictedClasses) {
  // scikit-learn: f1_score(average="macro") is the mean of 1, 1/2 and 1/2.
  const Variable predicted = tensor({0, 2, 1, 2, 0, 1}), truth = tensor({0, 1, 1, 2, 0, 2});
  metrics::F1 f1(3);
  f1.update(predicted, truth);
  EXPECT_NEAR(2.0 / 3, f1.compute(), 1e-12);
  metrics::ConfusionMatrix table(3);
  table.update(predicted, truth);
  GUESS("[[2, 0, 0], [0, 1, 1], [0, 1, 1]]", table.counts());
  metrics::Accuracy accuracy;
  accuracy.update(predicted, truth);
  EXPECT_NEAR(4.0 / 6, accuracy.compute(), 1e-12);
  Accuracy of_probabilities;
  of_probabilities.update(tensor({0.9f, 0.2f}), tensor({1, 1}));
  GUESS("0.5", of_probabilities.compute());
}

TEST(InputsAndFolds, GroupsAsInLibtorch) {
  nn::Linear fc(4, 2);
  optim::AdamW adam(fc.parameters(), torch::optim::AdamWOptions(1e-3).weight_decay(0.1));
  for (auto& group : adam.param_groups()) {
    GUESS("0.001", group.lr());
    group.options().set_lr(group.options().get_lr() * 10);
  }
  GUESS("0.01", adam.lr());
  adam.param_groups()[0].lr(0.5);
  GUESS("0.5", adam.lr());
  GUESS("0.1", adam.weight_decay());
  optim::SGDOptions options{.lr = 0.1, .momentum = 0.9};
  options.lr *= 0.5;
  GUESS("0.05", double(options.lr));
  optim::Adam other(fc, optim::AdamOptions(1e-4));
  GUESS("0.0001", other.lr());
}

TEST(InputsAndFolds, OptionsWithoutTorch) {
  nn::Conv2d conv(nn::Conv2dOptions(3, 8, 3).padding(1).bias(false));
  GUESS("[1, 8, 5, 5]", conv(ones({1, 3, 5, 5})).shape());
  nn::Linear fc(nn::LinearOptions(4, 2).bias(false));
  GUESS("false", fc.bias.defined());
  nn::Embedding words(nn::EmbeddingOptions(10, 3).padding_idx(0));
  GUESS("[0, 0, 0]", words(tensor({0}))[0]);
}

TEST(InputsAndFolds, NamesOfParameters) {
  nn::Sequential net(nn::Linear(4, 3), nn::Tanh(), nn::Linear(3, 2));
  for (auto& item : net.named_parameters())
    if (item.key().ends_with("weight")) nn::init::xavier_normal_(item.value());
  GUESS("23", net.num_parameters());
  GUESS("true", is_floating_point(net.parameters()[0]));
  GUESS("false", is_floating_point(tensor({1})));
  Ema average(net, 0.9);
  average.update();
  GUESS("1", average.updates());
}

TEST(InputsAndFolds, ReductionOfBinaryCrossEntropy) {
  const Variable p = tensor({0.5f, 0.25f}), y = tensor({1.f, 0.f});
  EXPECT_NEAR(std::log(2.0) - std::log(0.75),
              binary_cross_entropy(p, y, {.reduction = "sum"}).item(), 1e-6);
  EXPECT_NEAR(std::log(2.0), binary_cross_entropy(p, y, {.weight = tensor({2.f, 0.f})}).item(),
              1e-6);
  EXPECT_NEAR((std::log(2.0) - std::log(0.75)) / 2, binary_cross_entropy(p, y, {}).item(), 1e-6);
}

TEST(InputsAndFolds, ArraysOfNumPy) {
  const tapegrad::testing::TempDir dir;
  const Variable x = randn({2, 3});
  save_npy((dir / "x.npy").string(), x);
  GUESS("true", equal(load_npy((dir / "x.npy").string()), x));
  save_npz((dir / "xy.npz").string(), {{"x", x}, {"y", x + 1}});
  auto arrays = load_npz((dir / "xy.npz").string());
  GUESS("true", equal(arrays["y"], x + 1));
}

}  // namespace
