// Keras's training in C++: losses, metrics and optimizers as arguments, callbacks as variables.
// Each comment is a line of Keras, and the code below it is the guess.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "tests/first_guess/guess.h"
#include "tests/temp_dir.h"

namespace tapegrad {
namespace {

using guesses::message_of;

struct Keras : ::testing::Test {
  int seeded = (manual_seed(3), 0);
  Variable x = randn({24, 4}), y = x.sum(1, true), labels = (y.squeeze() > 0).to(i64);
  nn::Sequential net{nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2)};
  nn::Linear line{4, 1};
  optim::SGD sgd{net, 0.1}, line_sgd{line, 0.05};
  DataLoader batches{TensorDataset(x, labels), {.batch_size = 8}};
};

TEST_F(Keras, CallbacksAreVariables) {
  const testing::TempDir dir;
  const std::string best = (dir / "best.safetensors").string(), log = (dir / "log.csv").string();
  // stopping = EarlyStopping(monitor="loss", patience=2)
  EarlyStopping stopping("loss", {.patience = 2});
  EarlyStopping other;
  // saving = ModelCheckpoint(path, save_best_only=True); logger = CSVLogger("log.csv")
  ModelCheckpoint saving(best, {.monitor = "loss", .save_best_only = true});
  CSVLogger logger(log);
  callbacks::TerminateOnNaN terminate;
  callbacks::ReduceLROnPlateau plateau({.monitor = "loss", .patience = 1});
  std::vector<double> rates;
  LearningRateScheduler schedule([](int64_t, double lr) { return lr / 2; });
  LambdaCallback noting(
      {.on_epoch_end = [&](int64_t, const auto& logs) { rates.push_back(logs["lr"]); }});
  fit(net, batches, sgd,
      {.epochs = 2,
       .verbose = 0,
       .callbacks = {stopping, other, saving, logger, terminate, plateau, schedule, noting}});
  EXPECT_EQ(rates, (std::vector{0.05, 0.025}));
  EXPECT_TRUE(std::filesystem::exists(best));
  EXPECT_TRUE(std::filesystem::exists(log));
  std::vector<Callback> list;
  list.push_back(stopping);
  list.emplace_back(logger);
  fit(net, batches, sgd, {.verbose = 0, .callbacks = list});
}

/// Every name of a loss gives the value of the function with default options.
TEST_F(Keras, LossesHaveNames) {
  const auto loss = [](nn::Module& model, const Variable& in, const Variable& out,
                       const LossFn& function) {
    return evaluate(model, in, out, {.loss = function}).loss;
  };
  const Variable predicted = line(x).detach(), logits = net(x).detach();
  for (const char* name : {"mse", "mse_loss", "mean_squared_error"})
    EXPECT_NEAR(loss(line, x, y, name), mse_loss(predicted, y).item(), 1e-6) << name;
  for (const char* name : {"mae", "l1_loss", "mean_absolute_error"})
    EXPECT_NEAR(loss(line, x, y, name), l1_loss(predicted, y).item(), 1e-6) << name;
  for (const char* name : {"huber", "huber_loss"})
    EXPECT_NEAR(loss(line, x, y, name), huber_loss(predicted, y).item(), 1e-6) << name;
  EXPECT_NEAR(loss(line, x, y, "smooth_l1_loss"), smooth_l1_loss(predicted, y).item(), 1e-6);
  EXPECT_NEAR(loss(net, x, labels, "cross_entropy"), cross_entropy(logits, labels).item(), 1e-6);
  nn::Sequential logs{net, nn::LogSoftmax(1)}, shares{net, nn::Softmax(1)};
  EXPECT_NEAR(loss(logs, x, labels, "nll_loss"), cross_entropy(logits, labels).item(), 1e-6);
  // model.add(Softmax()); model.compile(loss="sparse_categorical_crossentropy")
  EXPECT_NEAR(loss(shares, x, labels, "sparse_categorical_crossentropy"),
              cross_entropy(logits, labels).item(), 1e-6);
  EXPECT_NEAR(loss(shares, x, one_hot(labels, 2).to(f32), "categorical_crossentropy"),
              cross_entropy(logits, labels).item(), 1e-6);
  nn::Sequential share{line, nn::Sigmoid()};
  const Variable is_positive = labels.unsqueeze(1).to(f32);
  const double bce = binary_cross_entropy_with_logits(predicted, is_positive).item();
  for (const char* name : {"bce", "binary_cross_entropy", "binary_crossentropy"})
    EXPECT_NEAR(loss(share, x, is_positive, name), bce, 1e-6) << name;
  EXPECT_NEAR(loss(line, x, is_positive, "binary_cross_entropy_with_logits"), bce, 1e-6);
}

TEST_F(Keras, NamesOfLossesAreChecked) {
  // Keras's cross entropies take probabilities; logits are refused.
  EXPECT_NE(message_of([&] {
              evaluate(net, x * 9, labels, {.loss = "sparse_categorical_crossentropy"});
            }).find("for logits: \"cross_entropy\""),
            std::string::npos);
  const std::string message = message_of([&] { evaluate(line, x, y, {.loss = "msee"}); });
  EXPECT_TRUE(message.starts_with("no loss is called \"msee\"; there are cross_entropy, "))
      << message;
  EXPECT_NE(message.find("keras_test.cpp:"), std::string::npos) << message;
  const std::string metric = message_of([&] { evaluate(line, x, y, {.metrics = {"f1"}}); });
  EXPECT_TRUE(metric.starts_with("no metric is called \"f1\"; there are accuracy, ")) << metric;
  EXPECT_NE(metric.find("F1 f1(10)"), std::string::npos) << metric;
  EXPECT_EQ(message_of([&] { evaluate(line, x, y, {.metrics = {static_cast<F1*>(nullptr)}}); }),
            "a metric is a null pointer");
}

TEST_F(Keras, MetricsAreNamesObjectsOrPointers) {
  // model.fit(x, labels, metrics=["accuracy"])
  const History history =
      fit(net, x, labels, sgd, {.epochs = 2, .verbose = 0, .metrics = {"accuracy"}});
  EXPECT_EQ(history["accuracy"].size(), 2);
  EXPECT_TRUE(history.epochs[0].more.empty());  // the accuracy is not listed twice
  EXPECT_EQ(evaluate(net, x, labels, {.accuracy = false, .metrics = {"acc"}}).more[0].second,
            evaluate(net, x, labels).accuracy);
  // metrics=["mae", "mse"]
  const Evaluation result = evaluate(line, x, y, {.loss = "mse", .metrics = {"mae", "mse", R2()}});
  ASSERT_EQ(result.more.size(), 3);
  EXPECT_EQ(result.more[0].first, "mae");
  EXPECT_NEAR(result.more[0].second, l1_loss(line(x), y).item(), 1e-6);
  EXPECT_NEAR(result.more[1].second, mse_loss(line(x), y).item(), 1e-6);
  EXPECT_NEAR(result.more[2].second,
              1 - (result.more[1].second / mse_loss(y.mean().expand({24, 1}), y).item()), 1e-5);
  F1 f1(2), again(2);
  RocAuc auc;
  evaluate(net, x, labels, {.metrics = {f1, &again, auc}});
  EXPECT_GT(f1.value(), 0);
  EXPECT_EQ(f1.value(), again.value());
  EXPECT_TRUE(std::isfinite(auc.value()));
}

TEST_F(Keras, TheOptimizerAndTheLossAreArguments) {
  // model.compile(SGD(0.05), "mse"); model.fit(x, y, epochs=30)
  const History history =
      fit(line, x, y, optim::SGD(line, 0.05), {.epochs = 30, .loss = "mse", .verbose = 0});
  EXPECT_LT(history["loss"].back(), 0.1 * history["loss"].front());
  fit(net, batches, optim::Adam(net), {.verbose = 0});
  fit(line, x, y, line_sgd, "mse", {.verbose = 0});
  // loss, accuracy = model.evaluate(x, labels)
  auto [loss, accuracy] = evaluate(net, x, labels);
  EXPECT_NEAR(loss, cross_entropy(net(x), labels).item(), 1e-6);
  EXPECT_NEAR(accuracy, (net(x).argmax(1) == labels).to(f64).mean().item(), 1e-9);
}

}  // namespace
}  // namespace tapegrad
