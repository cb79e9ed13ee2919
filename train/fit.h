// Trains and evaluates a model.
//
//   optim::Adam opt(model, {.lr = 1e-3});
//   DataLoader train(data.train, {.batch_size = 128, .shuffle = true});
//   DataLoader test(data.test, {.batch_size = 500});
//   History history = fit(model, train, opt, {.epochs = 12, .validation = &test});
//   Evaluation result = evaluate(model, test);
//   result.print("test");
//
// If a step needs more than model(x) and a loss of two variables, use train(), which takes any loop
// body.
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

/// Returns the mean loss of a batch, one element.
using LossFn = std::function<Variable(const Variable& output, const Variable& target)>;

/// Results of an epoch; NaN for values that were not computed.
struct EpochResult {
  int64_t epoch = 0;                                // starts at 1
  double loss = kNaN, accuracy = kNaN;              // means over the batches during training
  double train_loss = kNaN, train_accuracy = kNaN;  // of the training set, after the epoch
  double val_loss = kNaN, val_accuracy = kNaN;      // of the validation set, after the epoch
  double seconds = 0;                               // of training, without evaluation
};

struct History {
  std::vector<EpochResult> epochs;
  StepTimer times;
  bool stopped_early = false;  // by stop_below or on_epoch
  std::string not_graphed;     // reason if .graph was requested but not used

  /// Writes an SVG with the losses, or 1 - accuracies, of training and validation over the epochs.
  void save_error_curves(const std::string& path, bool accuracies = true) const;
};

struct FitOptions {
  int64_t epochs = 1;
  LossFn loss = {};                   // default: cross_entropy
  Loader* validation = nullptr;       // evaluated after every epoch
  bool accuracy = true;               // targets are classes; compute the accuracy
  bool evaluate_train = false;        // also evaluate the training set after every epoch
  double stop_below = 1e-8;           // stop after an epoch with a smaller loss
  std::optional<Device> device = {};  // move batches to this device
  /// Run the step as a GraphedStep (train/graphed_step.h). The time of a replay counts as update.
  bool graph = false;
  ProgressOptions progress = {};
  /// Called after every epoch; returning false stops the training.
  std::function<bool(const EpochResult&)> on_epoch = {};
};

/// For each batch: zero_grad, model(x), loss, backward, step. The model is in training mode during
/// training and restored afterwards; in a model that already is in training mode, submodules in
/// evaluation mode stay so. After an exception the model keeps the updates made so far.
History fit(nn::Module& model, Loader& data, optim::Optimizer& optimizer, FitOptions options = {});

struct EvaluateOptions {
  LossFn loss = {};  // default: cross_entropy
  bool accuracy = true;
  std::optional<Device> device = {};
};

struct Evaluation {
  double loss = kNaN;
  double accuracy = kNaN;                    // of classes; NaN if not computed
  int64_t count = 0;                         // number of examples
  std::vector<int64_t> labels, predictions;  // classes, in the order of the loader
  double seconds = 0;

  /// Calls print_predictions() with these results.
  void print(const std::string& title, std::ostream& out = standard_output()) const;
};

/// Runs one pass over the loader in evaluation mode without recording. Restores every module's
/// mode, also after an exception.
Evaluation evaluate(nn::Module& model, Loader& data, EvaluateOptions options = {});

/// Returns the concatenated outputs of all batches, on the CPU. Modes and recording as in
/// evaluate().
Variable predict(nn::Module& model, Loader& data, std::optional<Device> device = {});
Variable predict(nn::Module& model, const Variable& x, int64_t batch_size = 256);

/// Puts a model into evaluation mode for a scope, then restores the mode of each module.
class [[nodiscard]] EvalMode {
 public:
  explicit EvalMode(nn::Module& model);
  ~EvalMode();
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  std::vector<std::pair<nn::Module*, bool>> modes_;
};

/// Runs one pass over any range of (x, y), minimising `loss_fn(model, x, y)`. Returns the mean
/// loss.
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
