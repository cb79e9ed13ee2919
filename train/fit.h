// Trains a model.
//
//   optim::Adam opt(model, {.lr = 1e-3});
//   DataLoader train(data.train, {.batch_size = 128, .shuffle = true});
//   DataLoader test(data.test, {.batch_size = 500});
//   History history = fit(model, train, opt, {.epochs = 12, .validation = &test});
//   Evaluation result = evaluate(model, test);
//   result.print("test");
//
// A run that can be stopped and continued at any time, in mixed precision:
//
//   Ema average(model);
//   fit(model, train, opt,
//       {.epochs = 12, .validation = &test, .amp = bf16, .accumulate = 4, .clip_norm = 1.0,
//        .average = &average, .checkpoint = "run.safetensors",
//        .callbacks = {per_step(schedule), early_stop({.patience = 3})}});
//
// If a step needs more than model(x) and a loss of two variables, use train(), which accepts any
// loop body. docs/training.md shows the run above with fit() and as a hand-written loop.
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "dist/communicator.h"
#include "nn/module.h"
#include "optim/grad_scaler.h"
#include "optim/optimizer.h"
#include "train/callback.h"
#include "train/evaluate.h"
#include "train/history.h"
#include "train/metrics.h"
#include "train/progress.h"
#include "train/timer.h"
#include "train/weight_average.h"

namespace tapegrad {

namespace dist {
class AnyShardedOptimizer;
}

/// Validation data: tensors, `.validation_data = {x, y}`, or batches, `.validation_data =
/// test_batches`, which must outlive fit().
struct ValidationData {
  ValidationData() = default;
  ValidationData(Variable data, Variable target);
  ValidationData(Example example);
  ValidationData(Loader& batches);
  ValidationData(const TensorDataset& set);

  Example tensors = {};
  Loader* loader = nullptr;
};

struct FitOptions {
  ByName by_name = {};
  int64_t epochs = 1;                   // of the whole run, including those before a resume
  int64_t batch_size = 32;              // for fit() with tensors
  LossFn loss = {};                     // default: cross_entropy
  int verbose = 1;                      // 0: no progress
  bool shuffle = true;                  // for fit() with tensors
  Loader* validation = nullptr;         // evaluated after every epoch
  ValidationData validation_data = {};  // alternatively, tensors: `.validation_data = {x, y}`
  double validation_split = 0;          // alternatively, share of the tensors of fit() at the end
  bool accuracy = true;                 // targets are classes; compute the accuracy
  std::vector<MetricRef> metrics = {};  // computed in training ("f1") and validation ("val_f1")
  bool evaluate_train = false;          // also evaluate the training set after every epoch
  double stop_below = 1e-8;             // stop after an epoch with a smaller loss
  std::optional<Device> device = {};    // move batches to this device

  /// Run model and loss in an Autocast scope of this dtype, bf16 or f16. With f16 a GradScaler with
  /// these options scales the loss.
  std::optional<DType> amp = {};
  optim::GradScalerOptions scaler = {};
  /// Number of batches whose gradients are added before each update. The gradient is that of the
  /// mean loss of all their examples, also for the smaller groups at the end of an epoch.
  int64_t accumulate = 1;
  std::optional<double> clip_norm = {};   // norm of all gradients together; see optim/clip.h
  std::optional<double> clip_value = {};  // bound of each element, applied after clip_norm
  WeightAverage* average = nullptr;       // updated after every step, and used by evaluations

  /// File with the whole state of the run, written after epochs and at the end, also if SIGINT or
  /// SIGTERM ends the training. If the file exists, fit() continues from it, bit for bit; the
  /// program must create the model, the optimizers, the loaders and the options as before.
  std::string checkpoint = {};
  bool resume = true;  // if false, an existing checkpoint is ignored and then overwritten
  int64_t checkpoint_epochs = 1;  // epochs between checkpoints; the last epoch is always written
  int64_t checkpoint_steps = 0;   // updates between further checkpoints; 0: none
  /// Whether SIGINT and SIGTERM are handled (train/interrupt.h): the training ends after the
  /// current update.
  bool handle_signals = true;

  /// Whether the step is run as a GraphedStep (train/graphed_step.h). The time of a replay counts
  /// as update. The first step of an epoch is no replay, to notice a number that the loss depends
  /// on and that has changed. Not possible with .accumulate, with callbacks after_backward and with
  /// a sharded optimizer. With several ranks, the gradients are sent after the replay of the
  /// backward pass.
  bool graph = false;
  /// Ranks that train the model together (dist/init.h). Gradients, and the losses and accuracies of
  /// the history, are means over the ranks. Loaders must be made with `.shard = world`. Rank 0
  /// shows the progress and writes the checkpoint, which all ranks read. Each rank evaluates the
  /// whole validation set and calls the callbacks. If the model is a dist::DataParallel, its ranks
  /// and options are used.
  dist::Communicator world = {};
  ProgressOptions progress = {};
  std::vector<Callback> callbacks = {};  // called in this order
  /// Called after every epoch; returning false stops the training.
  std::function<bool(const EpochResult&)> on_epoch = {};
  BatchFn batch = {};  // in place of model and loss; set by train/fit_items.h
};

/// Optimizers of a model. Parts of the model may have different optimizers.
using Optimizers = std::vector<optim::Optimizer*>;

/// For each batch: zero_grad, model(x), loss, backward, step. The model is in training mode during
/// training and restored afterwards; in a model that already is in training mode, submodules in
/// evaluation mode stay so. After an exception the model keeps the updates made so far.
///
/// Throws ArgumentError for invalid options. If the checkpoint cannot be read or written, throws
/// IoError, FormatError or ArgumentError with a message that suggests a remedy; an existing file is
/// unchanged. fit() checks before the first step that the checkpoint can be written.
History fit(nn::Module& model, Loader& data, const Optimizers& optimizers, FitOptions options = {});
History fit(nn::Module& model, Loader& data, optim::Optimizer& optimizer, FitOptions options = {});

History fit(nn::Module& model, Loader&& data, optim::Optimizer& optimizer, FitOptions options = {});

/// Overload for tensors with equal sizes in dimension 0, from which the batches are read, as in
/// Keras.
///
///   fit(model, x, y, adam, {.epochs = 5, .batch_size = 64, .validation_split = 0.1});
History fit(nn::Module& model, const Variable& x, const Variable& y, const Optimizers& optimizers,
            FitOptions options = {});
History fit(nn::Module& model, const Variable& x, const Variable& y, optim::Optimizer& optimizer,
            FitOptions options = {});

/// Overloads for an optimizer that only this call uses.
History fit(nn::Module& model, Loader& data, optim::Optimizer&& optimizer, FitOptions options = {});
History fit(nn::Module& model, const Variable& x, const Variable& y, optim::Optimizer&& optimizer,
            FitOptions options = {});

/// Overloads for a data set, which is read with a DataLoader of .batch_size and .shuffle.
template <std::derived_from<Dataset> Set>
History fit(nn::Module& model, const Set& data, optim::Optimizer& optimizer,
            FitOptions options = {}) {
  DataLoader batches(data, {.batch_size = options.batch_size, .shuffle = options.shuffle},
                     options.by_name.where);
  return fit(model, batches, Optimizers{&optimizer}, std::move(options));
}

template <std::derived_from<Dataset> Set>
History fit(nn::Module& model, const Set& data, optim::Optimizer&& optimizer,
            FitOptions options = {}) {
  return fit(model, data, optimizer, std::move(options));
}

/// Overloads with the loss after the optimizer: fit(model, x, y, adam, nn::MSELoss(), {.epochs =
/// 5}).
template <std::convertible_to<LossFn> Loss>
History fit(nn::Module& model, const Variable& x, const Variable& y, optim::Optimizer& optimizer,
            Loss loss, FitOptions options = {}) {
  options.loss = detail::loss_of(std::move(loss), options.by_name.where);
  return fit(model, x, y, Optimizers{&optimizer}, std::move(options));
}
template <std::convertible_to<LossFn> Loss>
History fit(nn::Module& model, DataLoader& data, optim::Optimizer& optimizer, Loss loss,
            FitOptions options = {}) {
  options.loss = detail::loss_of(std::move(loss), options.by_name.where);
  return fit(model, data, Optimizers{&optimizer}, std::move(options));
}
template <typename... More>
requires(sizeof...(More) > 0) void fit(nn::Module&, optim::Optimizer&, const More&...) {
  static_assert(detail::kNever<More...>,
                "fit(model, optimizer, ...): the data is before the optimizer: fit(model, loader, "
                "optimizer, {.epochs = 5}), or fit(model, x, y, optimizer, {.epochs = 5})");
}
/// Keras's optimizers have names; here an optimizer is an object.
template <size_t n>
void fit(nn::Module&, const Variable&, const Variable&, const char (&)[n], FitOptions = {}) {
  static_assert(n == 0,
                "fit(model, x, y, \"adam\"): construct the optimizer: fit(model, x, y, "
                "optim::Adam(model, 1e-3), {.epochs = 5})");
}

/// Overload for a sharded optimizer (dist/sharded_optimizer.h), whose state is divided among the
/// ranks of .world. If the optimizer shards the gradients of a dist::DataParallel, `model` must be
/// this DataParallel; otherwise throws ArgumentError. Each rank writes its part of the checkpoint.
History fit(nn::Module& model, Loader& data, dist::AnyShardedOptimizer& optimizer,
            FitOptions options = {});

namespace detail {
/// Returns whether `loss` is a function of the model and the two fields of an element of the range.
/// A user's own train(model, loader, optimizer, epoch) does not satisfy this.
template <typename Loss, typename Model, typename Data>
constexpr bool takes_fields() {
  using Item = std::remove_cvref_t<decltype(*std::begin(std::declval<Data&>()))>;
  if constexpr (std::is_arithmetic_v<Loss> || std::derived_from<Loss, nn::Module>)
    return false;
  else if constexpr (requires(Item & item) { std::get<1>(item); })
    return std::invocable<Loss&, Model&, std::tuple_element_t<0, Item>&,
                          std::tuple_element_t<1, Item>&>;
  else
    return std::invocable<Loss&, Model&, Variable&, Variable&>;
}
}  // namespace detail

/// Runs one pass over any range of (x, y), minimising `loss_fn(model, x, y)`. Returns the mean
/// loss.
///
///   std::vector<Example> data = {{x, y}};
///   for (int epoch = 0; epoch < 2000; ++epoch)
///     train(model, data, opt, [](auto& m, auto& x, auto& y) { return mse_loss(m(x), y); });
template <typename Model, typename Data, typename Optimizer, typename Loss>
requires(detail::takes_fields<std::remove_cvref_t<Loss>, Model, Data>()) double train(
    Model& model, Data&& data, Optimizer& optimizer, Loss&& loss_fn) {
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
