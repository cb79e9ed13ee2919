// Callbacks of fit(): small values that a list joins.
//
//   fit(model, train, optimizer,
//       {.epochs = 30,
//        .validation = &test,
//        .callbacks = {per_step(schedule),
//                      early_stop({.monitor = "val_loss", .patience = 3}),
//                      save_best("best.safetensors"),
//                      log_csv("run.csv"),
//                      {.after_epoch = [](Training& run) { draw(run.history); }}}});
//
// Stopping, saving and logging look only at the history of the epochs, which a checkpoint contains.
// They therefore have no state of their own, and a resumed run takes the same decisions.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "core/base/choice.h"
#include "data/loader.h"
#include "nn/module.h"
#include "optim/optimizer.h"
#include "optim/scheduler.h"
#include "train/history.h"
#include "train/training_state.h"
#include "train/weight_average.h"

namespace tapegrad {

/// The run as a callback sees it.
struct Training {
  nn::Module& model;
  Loader& data;
  std::span<optim::Optimizer* const> optimizers;
  WeightAverage* average;  // null if there is none
  History& history;        // of the finished epochs; in after_epoch the last one is this epoch
  int64_t epochs;          // requested
  int64_t epoch = 0;       // this one, from 1
  int64_t batch = 0;       // number of batches of this epoch that were begun
  int64_t steps = 0;       // updates of the weights in the whole run
  Example example = {};    // this batch; before_batch may change it
  Variable output = {}, loss = {};  // of this batch, from after_step on

  /// Ends the training after this step. The reason becomes History::stop_reason.
  void stop(const std::string& reason) { stop_reason = reason; }
  /// Saves the weights that evaluations use: the averaged ones if there is an average.
  void save_model(const std::string& path) const;

  std::string stop_reason = {};
};

/// What to call at each phase of a run. Empty functions are not called. An exception ends fit().
struct Callback final {
  using Phase = std::function<void(Training&)>;

  Phase before_training = {};  // after a checkpoint was restored
  Phase before_epoch = {};
  Phase before_batch = {};
  Phase after_backward = {};  // all gradients of a step are complete, unscaled and not yet clipped
  Phase after_step = {};      // the weights have been updated
  Phase after_epoch = {};     // evaluated and in the history, before the checkpoint is written
  Phase after_training = {};  // also if a signal ended it
  /// Returns why the training should end after the epochs of this history; empty to continue. Must
  /// depend on the history alone, because a resumed run asks again.
  std::function<std::string(const History&)> stop = {};
  /// Adds objects with a state to the checkpoint: `[&](TrainingState& state, const std::string&
  /// name) { state(name, schedule); }`. The name is unique among the callbacks.
  std::function<void(TrainingState&, const std::string& name)> save = {};
};

enum class Better { kAuto, kSmaller, kLarger };
constexpr auto choice_names(Better) {
  return std::to_array<ChoiceName<Better>>(
      {{"auto", Better::kAuto}, {"min", Better::kSmaller}, {"max", Better::kLarger}});
}
/// Whether smaller values of a measure are better. kAuto decides by the name: losses, errors
/// ("mae") and perplexities should be small, all others large.
bool smaller_is_better(const std::string& measure, Better better = Better::kAuto);

struct EarlyStopOptions {
  std::string monitor = "";  // default: val_loss if there is a validation set, otherwise loss
  int64_t patience = 1;      // epochs without improvement before the training ends
  double min_delta = 0;      // least change that counts as an improvement
  Better better = Better::kAuto;
};
/// Ends the training when a measure has not improved for `patience` epochs. A NaN is no
/// improvement.
Callback early_stop(EarlyStopOptions options = {});
struct EarlyStoppingOptions {
  std::string monitor = "";             // as in EarlyStopOptions
  double min_delta = 0;                 // least change that counts as an improvement
  int64_t patience = 0;                 // as 1
  Choice<Better> mode = Better::kAuto;  // "min", "max" or "auto"
  bool restore_best_weights = false;    // after the training, also one that was not ended early
};
/// early_stop() by Keras's names. The best weights are a part of the checkpoint.
Callback EarlyStopping(EarlyStoppingOptions options = {});
/// Ends the training when a measure has reached a value.
Callback stop_at(const std::string& monitor, double value, Better better = Better::kAuto);

/// Saves the model after each epoch that is the best one so far by a measure, with the default of
/// EarlyStopOptions.
Callback save_best(const std::string& path, const std::string& monitor = "",
                   Better better = Better::kAuto);
/// Saves the model after every n-th epoch. "{epoch}" in the path is replaced by the number of the
/// epoch; without it, the file holds the last saved epoch.
Callback save_every(const std::string& path, int64_t n = 1);

struct ModelCheckpointOptions {
  std::string monitor = "";  // as in EarlyStopOptions
  bool save_best_only = false;
  Choice<Better> mode = Better::kAuto;
};
/// save_every() or, with save_best_only, save_best() by Keras's name.
Callback ModelCheckpoint(const std::string& path, ModelCheckpointOptions options = {});
/// log_csv() by Keras's name.
Callback CSVLogger(const std::string& path);
/// Keras's: sets the learning rate of every group to schedule(epoch, lr) before each epoch, which
/// counts from 0.
Callback LearningRateScheduler(std::function<double(int64_t epoch, double lr)> schedule);
struct PlateauCallbackOptions {
  std::string monitor = "";             // as in EarlyStopOptions
  double factor = 0.1;                  // in [0, 1)
  int64_t patience = 10;                // epochs without improvement before a reduction
  Choice<Better> mode = Better::kAuto;  // "min", "max" or "auto"
  double min_delta = 1e-4;              // least change that counts as an improvement
  int64_t cooldown = 0;                 // epochs after a reduction that are not counted
  double min_lr = 0.0;
};
/// Keras's: multiplies the rate of every group by `factor`, down to min_lr, when a measure has not
/// improved for `patience` epochs. A NaN is no improvement. The decision depends on the history
/// alone. optim::ReduceLROnPlateau is PyTorch's class, for loops of the program's own. Throws
/// ArgumentError for options out of range.
Callback ReduceLROnPlateau(PlateauCallbackOptions options = {});
/// Keras's: ends the training after the first step whose loss is NaN or infinite. Waits for the
/// device after every step.
Callback TerminateOnNaN();
/// Keras's: functions that are called before and after each epoch, which counts from 0, and around
/// the training.
struct LambdaCallbackOptions {
  std::function<void(int64_t epoch, const EpochResult&logs)> on_epoch_begin = {}, on_epoch_end = {};
  std::function<void()> on_train_begin = {}, on_train_end = {};
};
Callback LambdaCallback(LambdaCallbackOptions options);

/// Steps a schedule after every update, or after every epoch, and saves it with the checkpoint.
Callback per_step(optim::Scheduler& schedule);
Callback per_epoch(optim::Scheduler& schedule);
/// Gives a measure to the schedule after every epoch, with the default of EarlyStopOptions.
Callback per_epoch(optim::ReduceLROnPlateau& schedule, const std::string& monitor = "");

/// Writes the history after every epoch, atomically, with History::save_csv or save_jsonl.
Callback log_csv(const std::string& path);
Callback log_jsonl(const std::string& path);

/// Keras's names: callbacks::EarlyStopping, callbacks::ModelCheckpoint.
namespace callbacks = ::tapegrad;

}  // namespace tapegrad
