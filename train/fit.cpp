#include "train/fit.h"

#include <cmath>

#include "absl/cleanup/cleanup.h"

#include "core/base/error.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/loss.h"
#include "ops/view.h"
#include "train/graphed_step.h"
#include "train/plot.h"

namespace tapegrad {
namespace {

LossFn or_cross_entropy(LossFn loss) {
  if (loss) return loss;
  return
      [](const Variable& output, const Variable& target) { return cross_entropy(output, target); };
}

void move_to(const std::optional<Device>& device, Example& batch) {
  if (!device) return;
  batch.data = batch.data.to(*device);
  if (batch.target.defined()) batch.target = batch.target.to(*device);
}

NamedValues values_of(const EpochResult& result) {
  NamedValues values;
  for (const auto& [name, value] : NamedValues{{"loss", result.loss},
                                               {"accuracy", result.accuracy},
                                               {"train_loss", result.train_loss},
                                               {"train_accuracy", result.train_accuracy},
                                               {"val_loss", result.val_loss},
                                               {"val_accuracy", result.val_accuracy}})
    // The loss is shown even if it is NaN.
    if (!std::isnan(value) || name == "loss") values.emplace_back(name, value);
  return values;
}

/// Running means of loss and accuracy over one pass.
struct Sums {
  RunningMean loss, accuracy;

  void add(const Variable& batch_loss, const Variable& output, const Variable& target,
           bool count_right) {
    const auto n = double(output.size(0));
    loss.add(batch_loss, n);
    if (count_right) accuracy.add(count_correct(output, target).to(f64) / n, n);
  }
};

/// Restores the mode of every module in the destructor.
struct ModeKeeper final : nn::MemberVisitor {
  explicit ModeKeeper(nn::Module& model) { model.visit(*this); }
  void on_module(const std::string&, nn::Module& module) override {
    modes.emplace_back(&module, module.is_training());
  }
  std::vector<std::pair<nn::Module*, bool>> modes;
};

/// Outer modules come first. train() sets the mode of all submodules, whose own entries follow.
void restore(const std::vector<std::pair<nn::Module*, bool>>& modes) {
  for (const auto& [module, training] : modes) module->train(training);
}

}  // namespace

EvalMode::EvalMode(nn::Module& model) : modes_(ModeKeeper(model).modes) { model.eval(); }
EvalMode::~EvalMode() { restore(modes_); }

History fit(nn::Module& model, Loader& data, optim::Optimizer& optimizer, FitOptions options) {
  if (options.epochs < 0) fail<ArgumentError>("fit: epochs is negative: ", options.epochs);
  if (options.epochs > 0 && data.size() == 0)
    fail<ArgumentError>("fit: the loader has no batches: ", data.num_examples(), " examples");
  const LossFn loss_fn = or_cross_entropy(options.loss);
  const EvaluateOptions evaluation{loss_fn, options.accuracy, options.device};
  History history;
  StepTimer& times = history.times;
  times.skip();
  const absl::Cleanup restore_modes = [modes = ModeKeeper(model).modes] { restore(modes); };
  // If the model is in training mode, submodules in evaluation mode are frozen and stay so.
  if (!model.is_training()) model.train();
  GraphedStep step(
      [&](const Variable& x, const Variable& target) {
        optimizer.zero_grad();
        const Variable output = model.call(x, Where::current());
        const Variable loss = loss_fn(output, target);
        times.mark(Phase::kForward);
        loss.backward();
        times.mark(Phase::kBackward);
        optimizer.step();
        return std::vector<Variable>{loss, output};
      },
      /*inputs=*/{}, {.enabled = options.graph});
  for (int64_t epoch = 1; epoch <= options.epochs; ++epoch) {
    EpochResult result{.epoch = epoch};
    Progress progress(data.size(), options.progress);
    if (progress.is_live())
      *options.progress.out << "Epoch " << epoch << "/" << options.epochs << '\n';
    Sums sums;
    int64_t steps = 0;
    for (Example& batch : data) {
      move_to(options.device, batch);
      times.mark(Phase::kData);
      const Variable inputs[] = {batch.data, batch.target};
      const std::vector<Variable> results = step.run_all(inputs);
      times.mark(Phase::kUpdate);
      times.end_step();
      ++steps;
      sums.add(results[0], results[1], batch.target, options.accuracy);
      if (progress.wants_update()) {
        NamedValues values{{"loss", sums.loss.value()}};
        if (options.accuracy) values.emplace_back("accuracy", sums.accuracy.value());
        progress.update(steps, values);
      }
      times.skip();
    }
    progress.stop_clock();
    result.seconds = progress.seconds();
    result.loss = sums.loss.value();
    if (options.accuracy) result.accuracy = sums.accuracy.value();
    if (options.evaluate_train) {
      const LoaderState state = data.state();
      const Evaluation train = evaluate(model, data, evaluation);
      data.set_state(state);
      result.train_loss = train.loss;
      result.train_accuracy = train.accuracy;
    }
    if (options.validation) {
      const Evaluation validation = evaluate(model, *options.validation, evaluation);
      result.val_loss = validation.loss;
      result.val_accuracy = validation.accuracy;
    }
    times.mark(Phase::kEvaluate);
    progress.finish(steps, values_of(result));
    history.epochs.push_back(result);
    const bool go_on = !options.on_epoch || options.on_epoch(result);
    times.skip();
    if (!go_on || result.loss < options.stop_below) {
      history.stopped_early = epoch < options.epochs;
      break;
    }
  }
  if (options.graph) history.not_graphed = step.reason();
  return history;
}

Evaluation evaluate(nn::Module& model, Loader& data, EvaluateOptions options) {
  const LossFn loss_fn = or_cross_entropy(options.loss);
  const NoGrad no_grad;
  const EvalMode mode(model);
  const Progress clock(data.size(), {.style = ProgressStyle::kNone});
  Evaluation result;
  Sums sums;
  for (Example& batch : data) {
    move_to(options.device, batch);
    const Variable output = model.call(batch.data, Where::current());
    sums.add(loss_fn(output, batch.target), output, batch.target, options.accuracy);
    result.count += output.size(0);
    if (!options.accuracy) continue;
    for (auto [classes, into] : {std::pair(target_classes(batch.target), &result.labels),
                                 std::pair(predicted_classes(output), &result.predictions)}) {
      const std::vector<int64_t> ids = classes.to_vector<int64_t>();
      into->insert(into->end(), ids.begin(), ids.end());
    }
  }
  result.loss = sums.loss.value();
  if (options.accuracy) result.accuracy = sums.accuracy.value();
  result.seconds = clock.seconds();
  return result;
}

void Evaluation::print(const std::string& title, std::ostream& out) const {
  print_predictions(title, labels, predictions, out);
}

Variable predict(nn::Module& model, Loader& data, std::optional<Device> device) {
  const NoGrad no_grad;
  const EvalMode mode(model);
  std::vector<Variable> outputs;
  for (Example& batch : data) {
    move_to(device, batch);
    outputs.push_back(model.call(batch.data, Where::current()).cpu());
  }
  if (outputs.empty()) fail<ArgumentError>("predict: no batches");
  return outputs.size() == 1 ? outputs[0] : cat(outputs);
}

Variable predict(nn::Module& model, const Variable& x, int64_t batch_size) {
  DeviceLoader loader(TensorDataset(x), {.batch_size = batch_size});
  return predict(model, loader);
}

void History::save_error_curves(const std::string& path, bool accuracies) const {
  Series train{"train", {}, {}}, test{"test", {}, {}};
  for (const EpochResult& epoch : epochs) {
    const bool after = !std::isnan(accuracies ? epoch.train_accuracy : epoch.train_loss);
    const double train_value = accuracies ? 1 - (after ? epoch.train_accuracy : epoch.accuracy)
                               : after    ? epoch.train_loss
                                          : epoch.loss;
    const double test_value = accuracies ? 1 - epoch.val_accuracy : epoch.val_loss;
    train.x.push_back(double(epoch.epoch));
    train.y.push_back(train_value);
    if (std::isnan(test_value)) continue;
    test.x.push_back(double(epoch.epoch));
    test.y.push_back(test_value);
  }
  std::vector<Series> curves{train};
  if (!test.x.empty()) curves.push_back(test);
  save_line_chart(path, curves,
                  {.title = accuracies ? "Error rate over epochs" : "Loss over epochs",
                   .x_label = "epoch",
                   .y_label = accuracies ? "error rate" : "loss"});
}

}  // namespace tapegrad
