#include "train/fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "core/base/error.h"
#include "core/tape/recording.h"
#include "io/safetensors.h"
#include "nn/activation.h"
#include "nn/dropout.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/binary.h"
#include "ops/loss.h"
#include "ops/random.h"
#include "ops/view.h"
#include "optim/optimizers.h"
#include "tests/error_message.h"
#include "tests/temp_dir.h"

namespace tapegrad {
namespace {

using testing::message_of;

/// Two classes on the left and right of a line, with a margin.
TensorDataset two_classes(int64_t n, uint64_t seed) {
  RandomGenerator generator(seed);
  const NoGrad no_grad;
  Variable x = rand({n, 2}, {}, generator) * 2 - 1;
  const Variable side = select(x, 1, 0) + 0.5 * select(x, 1, 1) > 0;
  const Variable away = (side.to(f32) * 2 - 1) * 0.1;
  return TensorDataset(x + unsqueeze(away, 1), side.to(i64));
}

nn::Sequential small_net() {
  manual_seed(1);
  return nn::Sequential({nn::Linear({.in_features = 2, .out_features = 8}), nn::Tanh(),
                         nn::Linear({.in_features = 8, .out_features = 2})});
}

TEST(Fit, S316_LearnsAndPrintsItsEpochs) {
  const TensorDataset train = two_classes(200, 1), test = two_classes(100, 2);
  nn::Sequential model = small_net();
  optim::Adam opt(model, {.lr = 0.03});
  DataLoader loader(train, {.batch_size = 32, .shuffle = true, .num_workers = 1});
  DataLoader test_loader(test, {.batch_size = 64});
  std::ostringstream out;
  const History history = fit(
      model, loader, opt, {.epochs = 15, .validation = &test_loader, .progress = {.out = &out}});
  ASSERT_EQ(history.epochs.size(), 15u);
  EXPECT_LT(history.epochs.back().loss, 0.5 * history.epochs.front().loss);
  EXPECT_GT(history.epochs.back().val_accuracy, 0.95);
  EXPECT_EQ(history.times.steps(), 15 * 7);
  EXPECT_GT(history.times.seconds(StepPhase::kForward), 0);
  EXPECT_GT(history.times.seconds(StepPhase::kEvaluate), 0);
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 15);
  EXPECT_EQ(text.rfind("7/7 ━━━━━━━━━━━━━━━━━━━━ ", 0), 0u) << text;
  for (const char* name : {" - loss: ", " - accuracy: ", " - val_loss: ", " - val_accuracy: "})
    EXPECT_NE(text.find(name), std::string::npos) << text;

  const Evaluation result = evaluate(model, test_loader);
  EXPECT_EQ(result.count, 100);
  EXPECT_EQ(result.accuracy, history.epochs.back().val_accuracy);
  EXPECT_EQ(result.loss, history.epochs.back().val_loss);
  EXPECT_EQ(result.labels, test.target().to_vector<int64_t>());
  std::ostringstream printed;
  result.print("test", printed);
  EXPECT_NE(printed.str().find("accuracy rate: "), std::string::npos);

  const testing::TempDir dir;
  history.save_error_curves(dir / "curves.svg");
  const std::string svg = testing::contents(dir / "curves.svg");
  EXPECT_NE(svg.find(">train<"), std::string::npos);
  EXPECT_NE(svg.find(">test<"), std::string::npos);
}

TEST(Fit, TheMeanLossCountsExamplesNotBatches) {
  // Evaluates 5 examples in batches of 4 and 1: the mean is over all five.
  nn::Sequential model = small_net();
  const TensorDataset data = two_classes(5, 3);
  DataLoader loader(data, {.batch_size = 4});
  const NoGrad no_grad;
  const double whole = cross_entropy(model(data.data()), data.target()).item();
  EXPECT_NEAR(evaluate(model, loader).loss, whole, 1e-6);
}

TEST(Fit, S307_StopsBelowTheThreshold) {
  nn::Sequential model({nn::Linear({.in_features = 1, .out_features = 1})});
  optim::SGD opt(model, {.lr = 0.5});
  const Variable x = tensor({-1.0, 1.0}, {2, 1});
  DeviceLoader loader(TensorDataset(x, 3 * x), {.batch_size = 2});
  const History history = fit(model, loader, opt,
                              {.epochs = 1000,
                               .loss = [](auto& y, auto& t) { return mse_loss(y, t); },
                               .accuracy = false,
                               .evaluate_train = true,
                               .progress = {.style = ProgressStyle::kNone}});
  EXPECT_TRUE(history.stopped_early);
  EXPECT_LT(history.epochs.size(), 200u);
  EXPECT_LT(history.epochs.back().loss, 1e-8);
  EXPECT_LE(history.epochs.front().train_loss, history.epochs.front().loss) << "after the update";
  EXPECT_TRUE(std::isnan(history.epochs.back().accuracy));

  int calls = 0;
  const History stopped = fit(model, loader, opt,
                              {.epochs = 10,
                               .loss = [](auto& y, auto& t) { return mse_loss(y, t); },
                               .accuracy = false,
                               .stop_below = -1,
                               .progress = {.style = ProgressStyle::kNone},
                               .on_epoch = [&](const EpochResult&) { return ++calls < 3; }});
  EXPECT_EQ(stopped.epochs.size(), 3u);
}

TEST(Fit, ModesComeBack) {
  nn::Sequential model({nn::Linear({.in_features = 2, .out_features = 4}), nn::Dropout(),
                        nn::Linear({.in_features = 4, .out_features = 2})});
  DataLoader loader(two_classes(8, 1), {.batch_size = 4});
  model[1].eval();  // frozen explicitly
  evaluate(model, loader);
  EXPECT_TRUE(model.is_training());
  EXPECT_FALSE(model[1].is_training());
  EXPECT_TRUE(model[2].is_training());
  model.train();
  const LossFn broken = [&](const Variable& y, const Variable&) -> Variable {
    EXPECT_FALSE(is_recording());
    EXPECT_FALSE(model[1].is_training());
    EXPECT_FALSE(y.requires_grad());
    throw std::runtime_error("broken");
  };
  EXPECT_THROW(evaluate(model, loader, {.loss = broken}), std::runtime_error);
  EXPECT_TRUE(model[1].is_training());
  EXPECT_TRUE(is_recording());

  model.eval();
  optim::SGD opt(model, {.lr = 0.1});
  fit(model, loader, opt, {.progress = {.style = ProgressStyle::kNone}, .on_epoch = [&](auto&) {
                             EXPECT_TRUE(model[1].is_training());
                             return true;
                           }});
  EXPECT_FALSE(model.is_training());
}

TEST(Fit, PredictJoinsBatches) {
  nn::Sequential model = small_net();
  const TensorDataset data = two_classes(10, 4);
  const NoGrad no_grad;
  const std::vector<float> expected = model(data.data()).to_vector<float>();
  const std::vector<float> batched = predict(model, data.data(), 3).to_vector<float>();
  ASSERT_EQ(batched.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(batched[i], expected[i], 1e-6);
  DataLoader loader(data, {.batch_size = 4});
  EXPECT_EQ(predict(model, loader).shape(), (Shape{10, 2}));
}

TEST(Train, S506_ALossClosureOverAListOfPairs) {
  nn::Linear model({.in_features = 1, .out_features = 1});
  optim::SGD opt(model, {.lr = 0.3});
  const Variable x = tensor({-1.0, 0.0, 1.0}, {3, 1});
  const std::vector<Example> data{{x, 2 * x + 1}};
  double loss = NAN;
  for (int epoch = 0; epoch < 200; ++epoch)
    loss = train(model, data, opt, [](auto& m, auto& in, auto& t) { return mse_loss(m(in), t); });
  EXPECT_LT(loss, 1e-10);
  EXPECT_NEAR(model.weight.item(), 2.0, 1e-4);
  const std::vector<std::pair<Variable, Variable>> pairs{{x, x}};
  EXPECT_GT(train(model, pairs, opt, [](auto& m, auto& in, auto& t) { return mse_loss(m(in), t); }),
            0.5);
}

TEST(ModelFiles, T56_MismatchesInOneErrorAndTheModelUnchanged) {
  const testing::TempDir dir;
  nn::Sequential model = small_net();
  save(dir / "model", model);
  nn::Sequential other = small_net();
  manual_seed(9);
  for (Variable& p : other.parameters()) uniform_(p.requires_grad_(false)).requires_grad_();
  load(dir / "model", other);
  for (const auto& [name, tensor] : model.state_dict())
    EXPECT_EQ(Variable(other.state_dict().at(name)).to_vector<float>(),
              Variable(tensor).to_vector<float>());

  TensorMap state = model.state_dict();
  state["extra"] = Tensor::full({1}, 1.0, f32);
  state.erase("0.bias");
  state["0.weight"] = Tensor::full({3, 3}, 1.0, f32);
  state["2.bias"] = Tensor::full({2}, 1, i64);
  save(dir / "bad", state);
  const auto before = Variable(other.state_dict().at("2.weight")).to_vector<float>();
  const std::string text = message_of<ArgumentError>([&] { load(dir / "bad", other); });
  for (const char* part : {"extra", "0.bias", "0.weight", "[3, 3]", "2.bias", "int64"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  EXPECT_EQ(Variable(other.state_dict().at("2.weight")).to_vector<float>(), before);
}

TEST(ModelFiles, S107_HalfPrecisionWeights) {
  const testing::TempDir dir;
  nn::Sequential model({nn::Linear({.in_features = 100, .out_features = 100})});
  save(dir / "full", model);
  save(dir / "half", model, {.dtype = f16});
  EXPECT_NEAR(double(std::filesystem::file_size(dir / "half")) /
                  double(std::filesystem::file_size(dir / "full")),
              0.5, 0.01);
  nn::Sequential other({nn::Linear({.in_features = 100, .out_features = 100})});
  load(dir / "half", other);
  EXPECT_EQ(other.parameters()[0].dtype(), f32);
  const auto a = model.parameters()[0].to_vector<float>();
  const auto b = other.parameters()[0].to_vector<float>();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4);
}

}  // namespace
}  // namespace tapegrad
