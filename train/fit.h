// Training a model, and seeing what it has learned.
//
//   optim::Adam opt(model, {.lr = 1e-3});
//   DataLoader train(data.train, {.batch_size = 128, .shuffle = true});
//   DataLoader test(data.test, {.batch_size = 500});
//   History history = fit(model, train, opt, {.epochs = 12, .validation = &test});
//   Evaluation result = evaluate(model, test);
//   result.print("test");
//
// Where a step needs more than model(x) and a loss of two variables, train() takes any loop body.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "nn/module.h"
#include "optim/optimizer.h"
#include "train/metrics.h"
#include "train/progress.h"
#include "train/timer.h"

namespace tapegrad {

/// The mean loss of a batch, one element.
using LossFn = std::function<Variable(const Variable& output, const Variable& target)>;

/// What an epoch gave; NaN where it was not computed.
struct EpochResult {
  int64_t epoch = 0;                                // from 1
  double loss = kNaN, accuracy = kNaN;              // means over the batches, while training
  double train_loss = kNaN, train_accuracy = kNaN;  // of the training set, after the epoch
  double val_loss = kNaN, val_accuracy = kNaN;      // of the validation set, after the epoch
  double seconds = 0;                               // of training, evaluation left out
};

struct History {
  std::vector<EpochResult> epochs;
  StepTimer times;
  bool stopped_early = false;  // by stop_below or on_epoch
  std::string not_graphed;     // why not, where .graph was wanted

  /// The losses, or 1 - accuracies, of training and validation over the epochs, as an SVG.
  void save_error_curves(const std::string& path, bool accuracies = true) const;
};

struct FitOptions {
  int64_t epochs = 1;
  LossFn loss = {};                   // cross_entropy unless given
  Loader* validation = nullptr;       // evaluated after every epoch
  bool accuracy = true;               // targets are classes: count the right ones
  bool evaluate_train = false;        // the training set is evaluated after every epoch too
  double stop_below = 1e-8;           // stop after an epoch whose loss is below
  std::optional<Device> device = {};  // batches are moved there
  /// The step is a GraphedStep (train/graphed_step.h); a repeat's time is counted as the update's.
  bool graph = false;
  ProgressOptions progress = {};
  /// Called after every epoch; false stops.
  std::function<bool(const EpochResult&)> on_epoch = {};
};

/// For each batch: zero_grad, model(x), loss, backward, step. The model is in training mode while
/// it trains (a part of a training model that is in evaluation mode stays so), and afterwards as it
/// was. Leaving by an exception leaves the model as far as it was trained.
History fit(nn::Module& model, Loader& data, optim::Optimizer& optimizer, FitOptions options = {});

struct EvaluateOptions {
  LossFn loss = {};  // cross_entropy unless given
  bool accuracy = true;
  std::optional<Device> device = {};
};

struct Evaluation {
  double loss = kNaN;
  double accuracy = kNaN;                    // of classes; NaN without
  int64_t count = 0;                         // of examples
  std::vector<int64_t> labels, predictions;  // classes, in the order of the loader
  double seconds = 0;

  /// print_predictions() of these.
  void print(const std::string& title, std::ostream& out = standard_output()) const;
};

/// One pass over the loader, batch by batch, in evaluation mode and unrecorded; every module's mode
/// is then put back, also after an exception.
Evaluation evaluate(nn::Module& model, Loader& data, EvaluateOptions options = {});

/// The outputs for all batches, joined, on the CPU; the same way.
Variable predict(nn::Module& model, Loader& data, std::optional<Device> device = {});
Variable predict(nn::Module& model, const Variable& x, int64_t batch_size = 256);

/// Puts a model into evaluation mode for a scope, and each of its modules back into its own mode.
class [[nodiscard]] EvalMode {
 public:
  explicit EvalMode(nn::Module& model);
  ~EvalMode();
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  std::vector<std::pair<nn::Module*, bool>> modes_;
};

/// One pass over any range of (x, y): `loss_fn(model, x, y)` gives the loss that is minimised.
/// Returns the mean of the losses.
///
///   std::vector<Example> data = {{x, y}};
///   for (int epoch = 0; epoch < 2000; ++epoch)
///     train(model, data, opt, [](auto& m, auto& x, auto& y) { return mse_loss(m(x), y); });
template <typename Model, typename Data, typename Optimizer, typename Loss>
double train(Model& model, Data&& data, Optimizer& optimizer, Loss&& loss_fn) {
  RunningMean mean;
  for (auto&& [x, y] : data) {
    optimizer.zero_grad();
    const Variable loss = loss_fn(model, x, y);
    loss.backward();
    optimizer.step();
    mean.add(loss);
  }
  return mean.value();
}

}  // namespace tapegrad
