// History: measurements of fit(), with one EpochResult per epoch and the time of the steps.
//
//   History history = fit(model, train, optimizer, {.epochs = 12, .validation = &test});
//   history.epochs.back().val_accuracy;
//   history.epochs.back().value("val_f1");
//   history.save_error_curves("error.svg");
//   history.save_csv("run.csv");
//   history.save_jsonl("run.jsonl");
#pragma once

#include <string>
#include <vector>

#include "core/base/tensor_map.h"
#include "train/metrics.h"
#include "train/plot.h"
#include "train/progress.h"
#include "train/timer.h"

namespace tapegrad {

/// Results of an epoch; NaN for values that were not computed.
struct EpochResult {
  int64_t epoch = 0;                                // starts at 1
  double loss = kNaN, accuracy = kNaN;              // means over the batches during training
  double train_loss = kNaN, train_accuracy = kNaN;  // of the training set, after the epoch
  double val_loss = kNaN, val_accuracy = kNaN;      // of the validation set, after the epoch
  NamedValues more = {};                            // of FitOptions::metrics: "f1", "val_f1"
  double lr = kNaN;                                 // of the first optimizer, in the last step
  double seconds = 0;                               // of training, without evaluation
  bool has_train = false, has_val = false;  // whether the sets were evaluated; a loss may be NaN

  /// Returns the computed values by name, without epoch, lr and seconds. Losses that were computed
  /// are included even if they are NaN. Of values with equal names, as the accuracy and that of a
  /// ConfusionMatrix, the first is included.
  NamedValues values() const;
  /// Returns one of values(), or the lr or the seconds. Throws ArgumentError, which lists the
  /// names, for an unknown name.
  double value(const std::string& name) const;
  /// Returns value(name), as Keras's logs["val_loss"].
  double operator[](const std::string& name) const;
  double at(const std::string& name) const;
};

struct History {
  std::vector<EpochResult> epochs;
  StepTimer times;             // measured in this process
  bool stopped_early = false;  // whether the run ended before the last epoch
  std::string stop_reason;     // reason, if stopped_early
  int signal = 0;              // SIGINT or SIGTERM if the signal ended the training
  std::string not_graphed;     // reason if .graph was requested but not used

  /// Gives a compile error for Keras's history.history["loss"].
  struct Keras {
    template <typename Name>
    auto operator[](const Name&) const {
      static_assert(detail::kNever<Name>, "history.history[\"loss\"]: write history[\"loss\"]");
    }
  };
  [[no_unique_address]] Keras history = {};

  /// Returns a value of each epoch, history["val_loss"]. Throws ArgumentError for an unknown name.
  std::vector<double> operator[](const std::string& name) const;
  /// Returns a value over the epochs, as a curve for save_line_chart(). Epochs without the value
  /// are left out.
  PlotSeries series(const std::string& value, const std::string& name) const;
  /// Writes an SVG with the losses, or 1 - accuracies, of training and validation over the epochs.
  void save_error_curves(const std::string& path, bool accuracies = true) const;
  /// Write a table with a header, or one JSON object per line. Each line is an epoch. A value that
  /// was not computed is empty in the table. NaN and infinities are null in JSON.
  void save_csv(const std::string& path) const;
  void save_jsonl(const std::string& path) const;

  /// Returns the values of the epochs as vectors: "epoch", "loss", "more.f1" ...
  TensorMap state_dict() const;
  void load_state_dict(const TensorMap& state);
};

}  // namespace tapegrad
