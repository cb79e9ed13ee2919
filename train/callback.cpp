#include "train/callback.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

#include "core/base/error.h"
#include "io/atomic_file.h"

namespace tapegrad {
namespace {

/// Returns the measure in each epoch; NaN in epochs without it. Throws ArgumentError if no epoch
/// has it.
std::vector<double> monitored(const History& history, const std::string& monitor) {
  const auto is_validated = [](const EpochResult& epoch) {
    return epoch.has_val || !std::isnan(epoch.val_loss);
  };
  const bool has_val = std::ranges::any_of(history.epochs, is_validated);
  bool is_known = monitor.empty();
  std::vector<double> measures;
  for (const EpochResult& epoch : history.epochs) {
    measures.push_back(!monitor.empty() ? kNaN : has_val ? epoch.val_loss : epoch.loss);
    if (monitor.empty()) continue;
    NamedValues values = epoch.values();
    values.insert(values.end(), {{"lr", epoch.lr}, {"seconds", epoch.seconds}});
    const auto found = std::ranges::find(values, monitor, &NamedValues::value_type::first);
    if (found == values.end()) continue;
    is_known = true;
    measures.back() = found->second;
  }
  if (!is_known) history.epochs.back().value(monitor);  // throws an error with the names
  return measures;
}

std::string shown(const std::string& monitor) { return monitor.empty() ? "the loss" : monitor; }

/// Returns the index of the first epoch that no later one improves on by more than min_delta.
size_t best_epoch(const History& history, const std::string& monitor, double min_delta,
                  Better better) {
  const double sign = smaller_is_better(monitor.empty() ? "loss" : monitor, better) ? 1 : -1;
  const std::vector<double> measures = monitored(history, monitor);
  size_t best = 0;
  double least = INFINITY;
  for (size_t i = 0; i < measures.size(); ++i) {
    const double value = sign * measures[i];
    if (!(value < least - min_delta)) continue;
    least = value;
    best = i;
  }
  return best;
}

}  // namespace

void Training::save_model(const std::string& path) const {
  std::optional<UseAverage> use;
  if (average != nullptr) use.emplace(*average);
  save(path, model);
}

bool smaller_is_better(const std::string& measure, Better better) {
  if (better != Better::kAuto) return better == Better::kSmaller;
  for (const char* word : {"loss", "error", "mae", "mse", "perplexity"})
    if (measure.find(word) != std::string::npos) return true;
  return false;
}

Callback early_stop(EarlyStopOptions options) {
  if (options.patience < 1)
    fail<ArgumentError>("early_stop: patience is ", options.patience, ", not at least 1");
  return {.stop = [options](const History& history) -> std::string {
    const size_t best = best_epoch(history, options.monitor, options.min_delta, options.better);
    const auto since = int64_t(history.epochs.size() - 1 - best);
    if (since < options.patience) return "";
    return absl::StrFormat("%s has not improved since epoch %d: %.6g", shown(options.monitor),
                           history.epochs[best].epoch, monitored(history, options.monitor)[best]);
  }};
}

namespace {

/// A copy of the weights of the best epoch so far; none before the first one.
struct BestWeights {
  TensorMap weights;

  TensorMap state_dict() const { return weights; }
  void load_state_dict(const TensorMap& state) { weights = state; }
};

Callback stop_with_best_weights(const EarlyStoppingOptions& options) {
  const Better better = options.mode;
  if (options.patience < 0)
    fail_at<ArgumentError>(options.by_name.where, "EarlyStopping: patience is ", options.patience,
                           ", not at least 0");
  Callback callback = early_stop({.monitor = options.monitor,
                                  .patience = std::max<int64_t>(options.patience, 1),
                                  .min_delta = options.min_delta,
                                  .better = better});
  if (!options.restore_best_weights) return callback;
  const auto best = std::make_shared<BestWeights>();
  callback.after_epoch = [=](Training& run) {
    if (best_epoch(run.history, options.monitor, options.min_delta, better) + 1 !=
        run.history.epochs.size())
      return;
    best->weights.clear();
    for (const auto& [name, value] : run.model.state_dict())
      best->weights.emplace(name, value.clone());
  };
  callback.after_training = [=](Training& run) {
    if (!best->weights.empty()) run.model.load_state_dict(best->weights);
  };
  callback.save = [=](TrainingState& state, const std::string& name) { state(name, *best); };
  return callback;
}

}  // namespace

EarlyStopping::EarlyStopping(EarlyStoppingOptions options)
    : KerasCallback(stop_with_best_weights(options)) {}

ModelCheckpoint::ModelCheckpoint(const std::string& path, ModelCheckpointOptions options)
    : KerasCallback(options.save_best_only ? save_best(path, options.monitor, options.mode)
                                           : save_every(path)) {}

LearningRateScheduler::LearningRateScheduler(
    std::function<double(int64_t epoch, double lr)> schedule)
    : KerasCallback({.before_epoch = [schedule = std::move(schedule)](Training& run) {
        for (optim::Optimizer* optimizer : run.optimizers)
          for (int64_t group = 0; group < optimizer->group_count(); ++group)
            optimizer->set_lr(group, schedule(run.epoch - 1, optimizer->lr(group)));
      }}) {}

namespace {

/// Returns whether the last epoch of the history is one after which the rate is reduced.
bool is_plateau(const History& history, const PlateauCallbackOptions& options) {
  const bool smaller =
      smaller_is_better(options.monitor.empty() ? "loss" : options.monitor, options.mode);
  double best = INFINITY;
  int64_t waited = 0, cooling = 0;
  bool reduces = false;
  for (const double measure : monitored(history, options.monitor)) {
    const double value = (smaller ? 1 : -1) * measure;
    reduces = false;
    if (cooling > 0) --cooling, waited = 0;
    if (value < best - options.min_delta) {
      best = value;
      waited = 0;
    } else if (cooling == 0 && ++waited >= options.patience) {
      reduces = true;
      waited = 0;
      cooling = options.cooldown;
    }
  }
  return reduces;
}

Callback reduce_on_plateau(const PlateauCallbackOptions& options) {
  static constexpr const char* kName = "ReduceLROnPlateau";
  const auto least = [](const char* option, int64_t value) {
    if (value < 0) fail<ArgumentError>(kName, ": ", option, " is ", value, ", not at least 0");
  };
  least("patience", options.patience);
  least("cooldown", options.cooldown);
  optim::check_range(kName, "factor", options.factor, 0, 1);
  optim::check_range(kName, "min_delta", options.min_delta, 0, INFINITY);
  optim::check_range(kName, "min_lr", options.min_lr, 0, INFINITY);
  return {.after_epoch = [options](Training& run) {
    if (!is_plateau(run.history, options)) return;
    for (optim::Optimizer* optimizer : run.optimizers)
      for (int64_t group = 0; group < optimizer->group_count(); ++group)
        if (const double lr = optimizer->lr(group); lr > options.min_lr)
          optimizer->set_lr(group, std::max(lr * options.factor, options.min_lr));
  }};
}

Callback call_functions(const LambdaCallbackOptions& options) {
  Callback result;
  if (const auto& begin = options.on_epoch_begin)
    result.before_epoch = [begin](Training& run) {
      begin(run.epoch - 1, run.history.epochs.empty() ? EpochResult() : run.history.epochs.back());
    };
  if (const auto& end = options.on_epoch_end)
    result.after_epoch = [end](Training& run) { end(run.epoch - 1, run.history.epochs.back()); };
  if (const auto& begin = options.on_train_begin)
    result.before_training = [begin](Training&) { begin(); };
  if (const auto& end = options.on_train_end) result.after_training = [end](Training&) { end(); };
  return result;
}

}  // namespace

ReduceLROnPlateau::ReduceLROnPlateau(PlateauCallbackOptions options)
    : KerasCallback(reduce_on_plateau(options)) {}

TerminateOnNaN::TerminateOnNaN()
    : KerasCallback({.after_step = [](Training& run) {
        const double loss = run.loss.item();
        if (!std::isfinite(loss))
          run.stop(absl::StrFormat("the loss of batch %d of epoch %d is %f", run.batch, run.epoch,
                                   loss));
      }}) {}

LambdaCallback::LambdaCallback(LambdaCallbackOptions options)
    : KerasCallback(call_functions(options)) {}

Callback stop_at(const std::string& monitor, double value, Better better) {
  return {.stop = [=](const History& history) -> std::string {
    const double reached = monitored(history, monitor).back();
    const bool smaller = smaller_is_better(monitor.empty() ? "loss" : monitor, better);
    if (!(smaller ? reached <= value : reached >= value)) return "";
    return absl::StrFormat("%s has reached %.6g: %.6g", shown(monitor), value, reached);
  }};
}

namespace {

/// Returns a callback that writes a file after epochs. It throws IoError before the training, not
/// after the first epoch, if the file cannot be written.
Callback write_after_epochs(const std::string& path, Callback::Phase write) {
  return {.before_training = [path](Training&) { const AtomicFile attempt(path); },
          .after_epoch = std::move(write)};
}

}  // namespace

Callback save_best(const std::string& path, const std::string& monitor, Better better) {
  return write_after_epochs(path, [=](Training& run) {
    if (best_epoch(run.history, monitor, 0, better) + 1 == run.history.epochs.size())
      run.save_model(path);
  });
}

Callback save_every(const std::string& path, int64_t n) {
  if (n < 1) fail<ArgumentError>("save_every: n is ", n, ", not at least 1");
  return write_after_epochs(path, [=](Training& run) {
    if (run.epoch % n == 0)
      run.save_model(absl::StrReplaceAll(path, {{"{epoch}", std::to_string(run.epoch)}}));
  });
}

Callback per_step(optim::Scheduler& schedule) {
  return {.after_step = [&schedule](Training&) { schedule.step(); },
          .save = [&schedule](TrainingState& state,
                              const std::string& name) { state(name, schedule); }};
}

Callback per_epoch(optim::Scheduler& schedule) {
  return {.after_epoch = [&schedule](Training&) { schedule.step(); },
          .save = [&schedule](TrainingState& state,
                              const std::string& name) { state(name, schedule); }};
}

Callback per_epoch(optim::ReduceLROnPlateau& schedule, const std::string& monitor) {
  return {
      .after_epoch = [&schedule, monitor](
                         Training& run) { schedule.step(monitored(run.history, monitor).back()); },
      .save = [&schedule](TrainingState& state,
                          const std::string& name) { state(name, schedule); }};
}

Callback log_csv(const std::string& path) {
  return write_after_epochs(path, [path](Training& run) { run.history.save_csv(path); });
}

Callback log_jsonl(const std::string& path) {
  return write_after_epochs(path, [path](Training& run) { run.history.save_jsonl(path); });
}

KerasCallback::KerasCallback(Callback callback) : callback_(std::move(callback)) {}
CSVLogger::CSVLogger(const std::string& path) : KerasCallback(log_csv(path)) {}
}  // namespace tapegrad
