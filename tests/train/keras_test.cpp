// fit(), evaluate() and callbacks in Keras's forms.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "core/base/error.h"
#include "nn/linear.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/loss.h"
#include "ops/matmul.h"
#include "ops/random.h"
#include "ops/view.h"
#include "optim/optimizers.h"
#include "tests/temp_dir.h"
#include "train/callback.h"
#include "train/evaluate.h"
#include "train/fit.h"

namespace tapegrad {
namespace {

using testing::TempDir;

const LossFn mse = [](const Variable& y, const Variable& target) { return mse_loss(y, target); };

struct Problem {
  int seeded = (manual_seed(5), 0);
  Variable x = randn({50, 3}), y = matmul(x, tensor({1.F, -2.F, 3.F}).view({3, 1}));
  nn::Linear net{3, 1};
  optim::SGD sgd{net, 0.1};
  DataLoader loader{TensorDataset(x, y), 50};
  std::vector<optim::Optimizer*> list{&sgd};
};

FitOptions quiet(int64_t epochs) {
  return {.epochs = epochs, .loss = mse, .accuracy = false, .progress = {.out = nullptr}};
}

TEST(Keras, FitTakesTensors) {
  const auto weights = [](bool tensors) {
    Problem p;
    FitOptions options = quiet(3);
    if (tensors) {
      options.batch_size = 8;
      fit(p.net, p.x, p.y, p.sgd, options);
    } else {
      DataLoader loader(TensorDataset(p.x, p.y), {.batch_size = 8, .shuffle = true});
      fit(p.net, loader, p.sgd, options);
    }
    return p.net.weight.to_vector<float>();
  };
  EXPECT_EQ(weights(true), weights(false));
  Problem p;
  const History history = fit(p.net, p.x, p.y, p.sgd, quiet(40));
  EXPECT_LT(history.epochs.back().loss, 1e-3);
  EXPECT_NEAR(evaluate(p.net, p.x, p.y, {.loss = mse, .accuracy = false}).loss,
              mse_loss(p.net(p.x), p.y).item(), 1e-6);
  EXPECT_EQ(predict(p.net, p.x).shape(), (Shape{50, 1}));
}

TEST(Keras, ValidationIsTheLastShareOrOtherTensors) {
  const auto losses = [](int form) {
    Problem p;
    FitOptions options = quiet(2);
    options.shuffle = false;
    const Variable x = narrow(p.x, 0, 0, 40), y = narrow(p.y, 0, 0, 40);
    const Example rest{narrow(p.x, 0, 40, 10), narrow(p.y, 0, 40, 10)};
    DataLoader loader(TensorDataset(rest.data, rest.target), {.batch_size = 32});
    if (form == 0) options.validation_split = 0.2;
    if (form == 1) options.validation_data = rest;
    if (form == 2) options.validation = &loader;
    const History h =
        form == 0 ? fit(p.net, p.x, p.y, p.sgd, options) : fit(p.net, x, y, p.sgd, options);
    return std::vector{h.epochs[0].val_loss, h.epochs[1].val_loss, h.epochs[1].loss};
  };
  EXPECT_EQ(losses(0), losses(2));
  EXPECT_EQ(losses(1), losses(2));
  EXPECT_TRUE(std::isfinite(losses(0)[0]));
}

TEST(Keras, FitRefusesContradictions) {
  Problem p;
  DataLoader loader(TensorDataset(p.x, p.y), {.batch_size = 8});
  const Example some{p.x, p.y};
  const auto refuses = [&](const std::function<void(FitOptions&)>& change, bool tensors) {
    FitOptions options = quiet(1);
    change(options);
    EXPECT_THROW(
        tensors ? fit(p.net, p.x, p.y, p.sgd, options) : fit(p.net, loader, p.sgd, options),
        ArgumentError);
  };
  for (const double split : {-0.1, 1.0, double(NAN)})
    refuses([=](FitOptions& o) { o.validation_split = split; }, true);
  refuses([](FitOptions& o) { o.validation_split = 0.5; }, false);
  refuses([&](FitOptions& o) { o.validation_data = some, o.validation = &loader; }, false);
  refuses([&](FitOptions& o) { o.validation_data = some, o.validation_split = 0.5; }, true);
  refuses([](FitOptions& o) { o.batch_size = 0; }, true);
  EXPECT_THROW(fit(p.net, p.x, narrow(p.y, 0, 0, 3), p.sgd, quiet(1)), ShapeError);
  EXPECT_THROW(fit(p.net, Variable(), p.y, p.sgd, quiet(1)), ArgumentError);
}

/// A run with losses 5, 3, 4, 4, ... ends with the weights after the second epoch.
TEST(Keras, EarlyStoppingRestoresTheBestWeights) {
  for (const bool restores : {false, true}) {
    Problem p;
    FitOptions options = quiet(9);
    const double values[] = {5, 3, 4, 4, 4, 4, 4, 4, 4};
    std::vector<std::vector<float>> weights;
    options.callbacks = {
        {.after_epoch =
             [&](Training& run) {
               run.history.epochs.back().loss = values[weights.size()];
               weights.push_back(p.net.weight.to_vector<float>());
             }},
        EarlyStopping({.monitor = "loss", .patience = 2, .restore_best_weights = restores})};
    const History history = fit(p.net, p.x, p.y, p.sgd, options);
    EXPECT_EQ(history.epochs.size(), 4);
    EXPECT_TRUE(history.stopped_early);
    EXPECT_EQ(p.net.weight.to_vector<float>(), weights[restores ? 1 : 3]);
  }
  EXPECT_THROW(EarlyStopping({.patience = -1}), ArgumentError);
  EXPECT_THROW(EarlyStopping({.mode = "least"}), ArgumentError);
}

TEST(Keras, TheBestWeightsAreInTheCheckpoint) {
  const TempDir dir;
  const auto run = [&](int64_t epochs, const std::string& name, bool resumed) {
    Problem p;
    FitOptions options = quiet(epochs);
    options.checkpoint = (dir / name).string();
    int64_t epoch = resumed ? 2 : 0;
    std::vector<float> best;
    options.callbacks = {
        {.after_epoch =
             [&](Training& training) {
               training.history.epochs.back().loss = ++epoch == 1 ? 1 : 2;
               if (epoch == 1) best = p.net.weight.to_vector<float>();
             }},
        EarlyStopping({.monitor = "loss", .patience = 3, .restore_best_weights = true})};
    fit(p.net, p.x, p.y, p.sgd, options);
    return std::pair(p.net.weight.to_vector<float>(), best);
  };
  const auto [whole, best] = run(4, "whole", false);
  EXPECT_EQ(whole, best);
  run(2, "parts", false);
  EXPECT_EQ(run(4, "parts", true).first, best);
}

TEST(Keras, OtherCallbacks) {
  const TempDir dir;
  Problem p;
  FitOptions options = quiet(2);
  const std::string best = (dir / "best.safetensors").string();
  const std::string each = (dir / "{epoch}.safetensors").string();
  options.callbacks = {ModelCheckpoint(best, {.monitor = "loss", .save_best_only = true}),
                       ModelCheckpoint(each), CSVLogger((dir / "log.csv").string())};
  fit(p.net, p.x, p.y, p.sgd, options);
  for (const char* name : {"best.safetensors", "1.safetensors", "2.safetensors", "log.csv"})
    EXPECT_TRUE(std::filesystem::exists(dir / name)) << name;
}

// Keras's rule: epochs in which the measure does not fall by more than min_delta count, except
// those of a cooldown.
TEST(Keras, ReduceLROnPlateauFollowsTheMeasure) {
  Problem p;
  const Callback reduce = ReduceLROnPlateau({.monitor = "loss",
                                             .factor = 0.5,
                                             .patience = 2,
                                             .min_delta = 0.1,
                                             .cooldown = 1,
                                             .min_lr = 0.01});
  History history;
  Training run{.model = p.net,
               .data = p.loader,
               .optimizers = p.list,
               .average = nullptr,
               .history = history,
               .epochs = 20};
  std::vector<double> rates;
  for (const double loss : {1.0, 0.95, 0.8, 0.75, 0.71, 0.75, 0.75, 0.75, 0.2, kNaN, kNaN, kNaN}) {
    history.epochs.push_back({.epoch = int64_t(rates.size()) + 1, .loss = loss});
    reduce.after_epoch(run);
    rates.push_back(p.sgd.lr());
  }
  EXPECT_EQ(rates, (std::vector<double>{0.1, 0.1, 0.1, 0.1, 0.05, 0.05, 0.025, 0.025, 0.025, 0.025,
                                        0.0125, 0.0125}));
}

TEST(Keras, ReduceLROnPlateauInFit) {
  Problem p;
  FitOptions options = quiet(6);
  options.callbacks = {ReduceLROnPlateau({.factor = 0.1, .patience = 1, .min_delta = 1e9})};
  fit(p.net, p.x, p.y, p.sgd, options);
  EXPECT_NEAR(p.sgd.lr(), 1e-6, 1e-18);  // the first epoch is the best one
  EXPECT_THROW(ReduceLROnPlateau({.factor = 1.0}), ArgumentError);
  EXPECT_THROW(ReduceLROnPlateau({.patience = -1}), ArgumentError);
  EXPECT_THROW(ReduceLROnPlateau({.min_lr = NAN}), ArgumentError);
}

TEST(Keras, EvaluationIsPrinted) {
  Evaluation result;
  result.loss = 0.25, result.count = 1;
  std::ostringstream out;
  out << result << ", ";
  result.accuracy = 0.5, result.count = 40, result.more = {{"f1", 0.75}};
  out << result;
  EXPECT_EQ(out.str(), "loss 0.25 (1 example), loss 0.25, accuracy 0.5, f1 0.75 (40 examples)");
  result.more = {{"accuracy", 0.5}, {"f1", 0.75}};
  std::ostringstream with_matrix, printed;
  with_matrix << result;
  EXPECT_EQ(with_matrix.str(), "loss 0.25, accuracy 0.5, f1 0.75 (40 examples)");

  Problem p;
  const Evaluation regression = evaluate(p.net, p.x, p.y, {.loss = mse});  // targets of any value
  EXPECT_TRUE(regression.labels.empty());
  regression.print("test", printed);
  EXPECT_EQ(printed.str().find("test\n  loss "), 0u) << printed.str();
  EXPECT_EQ(printed.str().find("accuracy"), std::string::npos) << printed.str();
}

}  // namespace
}  // namespace tapegrad
