// Callbacks of fit(), passed as a list:
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
// Callbacks that stop, save or log read only the history of the epochs, which is part of the
// checkpoint. They therefore have no state of their own, and a resumed run makes the same
// decisions.
#pragma once

#include <concepts>
#include <functional>
#include <span>
#include <string>
#include <utility>

#include "core/base/choice.h"
#include "data/loader.h"
#include "nn/module.h"
#include "optim/optimizer.h"
#include "optim/scheduler.h"
#include "train/history.h"
#include "train/training_state.h"
#include "train/weight_average.h"

namespace tapegrad {

/// State of the run that is passed to callbacks.
struct Training {
  nn::Module& model;
  Loader& data;
  std::span<optim::Optimizer* const> optimizers;
  WeightAverage* average;  // null if there is none
  History& history;        // of the finished epochs; in after_epoch the last one is this epoch
  int64_t epochs;          // requested number
  int64_t epoch = 0;       // current epoch, from 1
  int64_t batch = 0;       // number of batches of this epoch that were begun
  int64_t steps = 0;       // number of updates of the weights in the whole run
  Example example = {};    // current batch; before_batch may change it
  Variable output = {}, loss = {};  // of the current batch, from after_step on

  /// Ends the training after this step. The reason becomes History::stop_reason.
  void stop(const std::string& reason) { stop_reason = reason; }
  /// Saves the weights that evaluations use: the averaged weights if there is an average.
  void save_model(const std::string& path) const;

  std::string stop_reason = {};
};

/// Functions to call at each phase of a run. Empty functions are not called. An exception ends
/// fit().
struct Callback final {
  using Phase = std::function<void(Training&)>;

  Phase before_training = {};  // called after a checkpoint was restored
  Phase before_epoch = {};
  Phase before_batch = {};
  Phase after_backward = {};  // all gradients of a step are complete, unscaled and not yet clipped
  Phase after_step = {};      // the weights have been updated
  Phase after_epoch = {};     // evaluated and in the history, before the checkpoint is written
  Phase after_training = {};  // also if a signal ended it
  /// Returns the reason for ending the training after the epochs of this history; empty to
  /// continue. The result must depend only on the history, because a resumed run calls the function
  /// again.
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
/// Returns whether smaller values of a measure are better. kAuto decides by the name: losses,
/// errors ("mae") and perplexities should be small, all other measures large.
bool smaller_is_better(const std::string& measure, Better better = Better::kAuto);

struct EarlyStopOptions {
  std::string monitor = "";  // default: val_loss with a validation set, otherwise loss
  int64_t patience = 1;      // epochs without improvement before the training ends
  double min_delta = 0;      // smallest change that counts as an improvement
  Better better = Better::kAuto;
};
/// Ends the training when a measure has not improved for `patience` epochs. A NaN is not an
/// improvement.
Callback early_stop(EarlyStopOptions options = {});

/// Base of the callbacks with Keras's names, which convert to a Callback:
///
///   EarlyStopping stopping({.patience = 3});
///   fit(model, train, optimizer, {.epochs = 30, .callbacks = {stopping, CSVLogger("run.csv")}});
class KerasCallback {
 public:
  operator const Callback&() const { return callback_; }

 protected:
  explicit KerasCallback(Callback callback);

 private:
  Callback callback_;
};

struct EarlyStoppingOptions {
  ByName by_name = {};
  std::string monitor = "";             // as in EarlyStopOptions
  double min_delta = 0;                 // smallest change that counts as an improvement
  int64_t patience = 0;                 // 0 has the effect of 1
  Choice<Better> mode = Better::kAuto;  // "min", "max" or "auto"
  bool restore_best_weights = false;    // also after a training that was not ended early
};
/// early_stop() under Keras's names. The best weights are a part of the checkpoint.
struct EarlyStopping : KerasCallback {
  explicit EarlyStopping(EarlyStoppingOptions options = {});
  /// Overload for EarlyStopping("val_loss", {.patience = 3}).
  template <std::convertible_to<std::string> Monitor>
  explicit EarlyStopping(const Monitor& monitor, EarlyStoppingOptions options = {})
      : EarlyStopping((options.monitor = monitor, std::move(options))) {}
};
/// Ends the training when a measure has reached a value.
Callback stop_at(const std::string& monitor, double value, Better better = Better::kAuto);

/// Saves the model after each epoch that is the best one so far by a measure. The default measure
/// is that of EarlyStopOptions. This callback and the following ones throw IoError before the
/// training if the file cannot be written.
Callback save_best(const std::string& path, const std::string& monitor = "",
                   Better better = Better::kAuto);
/// Saves the model after every n-th epoch. "{epoch}" in the path is replaced by the number of the
/// epoch; without it, the file holds the last saved epoch.
Callback save_every(const std::string& path, int64_t n = 1);

/// Writes the history after every epoch, atomically, with History::save_csv or save_jsonl.
Callback log_csv(const std::string& path);
Callback log_jsonl(const std::string& path);

struct ModelCheckpointOptions {
  std::string monitor = "";  // as in EarlyStopOptions
  bool save_best_only = false;
  Choice<Better> mode = Better::kAuto;
};
/// save_every() or, with save_best_only, save_best(), under Keras's name.
struct ModelCheckpoint : KerasCallback {
  explicit ModelCheckpoint(const std::string& path, ModelCheckpointOptions options = {});
};
/// log_csv() under Keras's name.
struct CSVLogger : KerasCallback {
  explicit CSVLogger(const std::string& path);
};
/// Sets the learning rate of every group to schedule(epoch, lr) before each epoch, counted from 0.
/// Keras's callback.
struct LearningRateScheduler : KerasCallback {
  explicit LearningRateScheduler(std::function<double(int64_t epoch, double lr)> schedule);
};
struct PlateauCallbackOptions {
  std::string monitor = "";             // as in EarlyStopOptions
  double factor = 0.1;                  // in [0, 1)
  int64_t patience = 10;                // epochs without improvement before a reduction
  Choice<Better> mode = Better::kAuto;  // "min", "max" or "auto"
  double min_delta = 1e-4;              // smallest change that counts as an improvement
  int64_t cooldown = 0;                 // epochs after a reduction that are not counted
  double min_lr = 0.0;
};
/// Multiplies the rate of every group by `factor`, down to min_lr, when a measure has not improved
/// for `patience` epochs. A NaN is not an improvement. The decision depends only on the history.
/// Keras's callback; optim::ReduceLROnPlateau is PyTorch's class, for user-written loops. Throws
/// ArgumentError for options out of range.
struct ReduceLROnPlateau : KerasCallback {
  explicit ReduceLROnPlateau(PlateauCallbackOptions options = {});
};
/// Ends the training after the first step whose loss is NaN or infinite. Waits for the device after
/// every step. Keras's callback.
struct TerminateOnNaN : KerasCallback {
  TerminateOnNaN();
};
/// Functions that are called before and after each epoch, counted from 0, and before and after the
/// training. Keras's callback.
struct LambdaCallbackOptions {
  std::function<void(int64_t epoch, const EpochResult&logs)> on_epoch_begin = {}, on_epoch_end = {};
  std::function<void()> on_train_begin = {}, on_train_end = {};
};
struct LambdaCallback : KerasCallback {
  explicit LambdaCallback(LambdaCallbackOptions options);
};

/// Steps a schedule after every update, or after every epoch, and saves it with the checkpoint.
Callback per_step(optim::Scheduler& schedule);
Callback per_epoch(optim::Scheduler& schedule);
/// Passes a measure to the schedule after every epoch. The default measure is that of
/// EarlyStopOptions.
Callback per_epoch(optim::ReduceLROnPlateau& schedule, const std::string& monitor = "");

/// Keras's names: callbacks::EarlyStopping, callbacks::ModelCheckpoint.
namespace callbacks = ::tapegrad;

}  // namespace tapegrad
