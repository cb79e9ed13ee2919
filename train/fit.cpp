#include "train/fit.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "absl/cleanup/cleanup.h"

#include "core/base/allocator.h"
#include "core/base/error.h"
#include "core/cuda.h"
#include "core/tape/autocast.h"
#include "dist/data_parallel.h"
#include "dist/sharded_optimizer.h"
#include "nn/internal/module_modes.h"
#include "ops/binary.h"
#include "optim/clip.h"
#include "train/graphed_step.h"
#include "train/internal/fit_checkpoint.h"
#include "train/internal/pass.h"
#include "train/interrupt.h"

namespace tapegrad {
namespace {

using Phases = Callback::Phase Callback::*;

/// Throws ArgumentError if the model has parameters and no optimizer updates one of these.
void require_common_parameter(const nn::Module& model, const Optimizers& optimizers) {
  const std::vector<Variable> own = model.parameters();
  if (own.empty()) return;
  for (const optim::Optimizer* optimizer : optimizers)
    for (const Variable& param : optimizer->parameters())
      if (std::ranges::any_of(own, [&](const Variable& each) { return each.is_same(param); }))
        return;
  fail<ArgumentError>("fit: ", optimizers[0]->kind(), " updates no parameter of the model ",
                      model.kind(), ": construct the optimizer with this model");
}

void check(const nn::Module& model, const FitOptions& options, const Loader& data,
           const Optimizers& optimizers, const dist::AnyShardedOptimizer* sharded) {
  if (options.epochs < 0) fail<ArgumentError>("fit: epochs is negative: ", options.epochs);
  if (options.epochs > 0 && data.size() == 0)
    fail<ArgumentError>("fit: the loader has no batches: ", data.num_examples(), " examples");
  if (optimizers.empty() || std::ranges::count(optimizers, nullptr) > 0)
    fail<ArgumentError>("fit: no optimizer");
  if (options.accumulate < 1)
    fail<ArgumentError>("fit: accumulate is ", options.accumulate, ", not at least 1");
  if (options.checkpoint_steps < 0)
    fail<ArgumentError>("fit: checkpoint_steps is negative: ", options.checkpoint_steps);
  if (options.checkpoint_epochs < 1)
    fail<ArgumentError>("fit: checkpoint_epochs is ", options.checkpoint_epochs,
                        ", not at least 1");
  require_batch_fn("fit", data, options.batch);
  if (!options.batch && sharded == nullptr) require_common_parameter(model, optimizers);
  if (options.batch && options.validation != nullptr &&
      (options.validation->item_type() == nullptr ||
       *options.validation->item_type() != *data.item_type()))
    fail<ArgumentError>("fit: the batches of .validation have other fields than the loader's");
}

/// One call of fit().
class Fit {
 public:
  /// If there is a sharded optimizer, `optimizers` is its local one.
  Fit(nn::Module& model, Loader& data, const Optimizers& optimizers,
      dist::AnyShardedOptimizer* sharded, FitOptions options)
      : options_(with_ranks_of(model, std::move(options))),
        optimizers_(optimizers),
        sharded_(sharded),
        loss_fn_(or_cross_entropy(options_.loss)),
        scaler_(scaler_options()),
        sums_(options_.accuracy, loss_fn_, options_.metrics),
        run_{model, data, optimizers_, options_.average, history_, options_.epochs},
        step_([this](const Variable& x, const Variable& target) { return compute(x, target); },
              /*inputs=*/{}, {.enabled = options_.graph && can_be_graphed()}),
        update_step_([this] { update(); }, /*inputs=*/{}, {.enabled = sends_later()}) {
    if (!options_.world.is_first() || options_.verbose == 0)
      options_.progress = {.style = ProgressStyle::kNone, .out = nullptr};
    describe_state();
    history_.times = StepTimer(device());
  }

  History run() {
    if (checkpoint_.is_wanted()) prepare_checkpoint();
    make_parallel();
    if (options_.handle_signals) interrupt_.emplace();
    history_.times.skip();
    const absl::Cleanup restore_modes = [modes = modes_of(run_.model)] { restore(modes); };
    // If the model is in training mode, submodules in evaluation mode are frozen and stay so.
    if (!run_.model.is_training()) run_.model.train();
    if (!history_.epochs.empty()) run_.stop_reason = stop_reason();
    call(&Callback::before_training);
    while (run_.stop_reason.empty() && finished() < options_.epochs) {
      run_epoch();
      if (history_.signal != 0) break;
    }
    history_.stopped_early = !run_.stop_reason.empty() && finished() < options_.epochs;
    if (history_.stopped_early) history_.stop_reason = run_.stop_reason;
    call(&Callback::after_training);
    if (options_.graph)
      history_.not_graphed = !can_be_graphed()         ? kNotGraphed
                             : !step_.reason().empty() ? step_.reason()
                             : sends_later()           ? update_step_.reason()
                                                       : "";
    return std::move(history_);
  }

 private:
  /// Returns the device on which the steps are computed.
  Device device() const {
    if (options_.device) return *options_.device;
    const std::vector<Variable> weights = optimizers_[0]->parameters();
    return weights.empty() ? default_device() : weights[0].device();
  }

  static constexpr const char* kNotGraphed =
      "gradients are accumulated, sharded, or read by a callback, or the batches have fields of "
      "their own";

  /// Returns the options with the ranks of the model, if the model is a DataParallel.
  static FitOptions with_ranks_of(const nn::Module& model, FitOptions options) {
    if (const auto* net = dynamic_cast<const dist::DataParallel*>(&model))
      options.world = net->world();
    return options;
  }
  void make_parallel() {
    const auto* net = dynamic_cast<const dist::DataParallel*>(&run_.model);
    if (sharded_ != nullptr && sharded_->flat().shards_gradients() && net == nullptr)
      fail<ArgumentError>(
          "fit: the optimizer shards the gradients of a DataParallel: pass that net as the model");
    if (options_.world.size() == 1) return;
    if (net != nullptr)
      parallel_.emplace(*net);
    else
      parallel_.emplace(run_.model, options_.world);
  }

  optim::GradScalerOptions scaler_options() const {
    optim::GradScalerOptions made = options_.scaler;
    made.enabled = made.enabled && options_.amp == f16;
    return made;
  }
  bool has(Phases phase) const {
    return std::ranges::any_of(options_.callbacks,
                               [&](const Callback& each) { return bool(each.*phase); });
  }
  bool can_be_graphed() const {
    return options_.accumulate == 1 && !has(&Callback::after_backward) && sharded_ == nullptr &&
           !options_.batch;
  }
  /// Returns whether gradients are sent between the backward pass and the update, because a
  /// captured backward pass cannot send.
  bool sends_later() const {
    return options_.graph && can_be_graphed() && options_.world.size() > 1;
  }
  void call(Phases phase) {
    for (const Callback& each : options_.callbacks)
      if (each.*phase) (each.*phase)(run_);
  }
  int64_t finished() const { return int64_t(history_.epochs.size()); }

  // ---- The step --------------------------------------------------------------------------------

  /// Returns loss, output and target of a batch. Updates the weights at the end of a group.
  std::vector<Variable> compute(const Variable& x, const Variable& target) {
    StepTimer& times = history_.times;
    if (begins_group_) zero_grad();
    std::optional<BatchResult> made;
    {
      std::optional<Autocast> amp;
      if (options_.amp) amp.emplace(*options_.amp);
      made = run_batch(run_.model, loss_fn_, options_.batch, {x, target}, item_.get(),
                       options_.by_name.where);
    }
    const Variable& loss = made->loss;
    times.mark(StepPhase::kForward);
    std::optional<dist::DataParallel::NoSync> no_sync;
    if (parallel_ && (!ends_group_ || sends_later())) no_sync.emplace(*parallel_);
    if (parallel_ && !sends_later()) parallel_->tell(wish());
    scaler_.scale(options_.accumulate == 1 ? loss : loss * (double(x.size(0)) / group_examples_))
        .backward();
    times.mark(StepPhase::kBackward);
    if (ends_group_ && !sends_later()) update();
    if (options_.batch) target_ = made->target;
    return {loss, made->output};
  }

  void zero_grad() {
    if (sharded_ != nullptr) return sharded_->zero_grad();
    for (optim::Optimizer* optimizer : optimizers_) optimizer->zero_grad();
  }

  void update() {
    if (sharded_ != nullptr) sharded_->flat().read();
    if (sharded_ != nullptr && scaler_.is_enabled()) sharded_->flat().spread_infinities();
    const bool reads = options_.clip_norm || options_.clip_value || has(&Callback::after_backward);
    if (reads)
      for (optim::Optimizer* optimizer : optimizers_) scaler_.unscale_(*optimizer);
    call(&Callback::after_backward);
    if (options_.clip_norm) clip_norm(*options_.clip_norm);
    if (options_.clip_value) optim::clip_grad_value_(parameters(), *options_.clip_value);
    for (optim::Optimizer* optimizer : optimizers_) scaler_.step(*optimizer);
    scaler_.update();
    if (sharded_ != nullptr) sharded_->flat().write();
  }

  void clip_norm(double max_norm) {
    if (sharded_ != nullptr)
      sharded_->flat().clip(max_norm);
    else
      optim::detail::clip_grad_norm(parameters(), max_norm, 2.0, false, /*reads_norm=*/false);
  }

  /// Returns the parameters of all optimizers.
  std::vector<Variable> parameters() const {
    std::vector<Variable> all;
    for (const optim::Optimizer* optimizer : optimizers_)
      for (Variable& each : optimizer->parameters()) all.push_back(std::move(each));
    return all;
  }

  /// Computes the position of the current batch in its group of accumulated batches.
  void place_in_group() {
    const int64_t batches = run_.data.size(), k = options_.accumulate;
    const int64_t first = (run_.batch - 1) / k * k, end = std::min(first + k, batches);
    begins_group_ = run_.batch - 1 == first;
    ends_group_ = run_.batch == end;
    const int64_t size = run_.data.batch_size();
    group_examples_ = double(std::min(end * size, run_.data.num_examples()) - first * size);
  }

  // ---- The epoch -------------------------------------------------------------------------------

  void run_epoch() {
    StepTimer& times = history_.times;
    run_.epoch = finished() + 1;
    if (!in_epoch_) {
      sums_.reset();
      run_.batch = 0;
      in_epoch_ = true;
      call(&Callback::before_epoch);
      step_.check_next();  // a callback may have changed a number that the loss depends on
    }
    Progress progress(run_.data.size(), options_.progress, run_.batch);
    if (progress.is_live())
      *options_.progress.out << "Epoch " << run_.epoch << "/" << options_.epochs << '\n';
    int64_t examples = 0;
    for (auto at = run_.data.begin(); at != run_.data.end(); ++at) {
      ++run_.batch;
      run_.example = std::move(*at);
      item_ = at.item();
      place_in_group();
      call(&Callback::before_batch);
      move_to(options_.device, run_.example);
      times.mark(StepPhase::kData);
      const Variable inputs[] = {run_.example.data, run_.example.target};
      std::vector<Variable> results = step_.run_all(inputs);
      if (sends_later()) {
        parallel_->tell(wish());
        parallel_->reduce_gradients();
        update_step_();
      }
      run_.loss = std::move(results[0]);
      run_.output = std::move(results[1]);
      if (ends_group_) {
        ++run_.steps;
        if (options_.average != nullptr) options_.average->update();
        call(&Callback::after_step);
      }
      times.mark(StepPhase::kUpdate);
      times.end_step();
      const int64_t count = run_.example.data.size(0);
      sums_.add({run_.loss, run_.output, options_.batch ? target_ : run_.example.target}, count);
      examples += count;
      run_.example = {};
      item_ = nullptr;
      if (progress.wants_update()) show(progress, examples);
      if (ends_group_ && has_to_stop()) return;
      times.skip();
    }
    run_.output = run_.loss = {};
    end_epoch(progress, examples);
  }

  void end_epoch(Progress& progress, int64_t examples) {
    shown_.reset();
    EpochResult result{.epoch = run_.epoch};
    result.loss = sums_.loss();  // waits for the device, so that the clock sees the whole epoch
    progress.stop_clock();
    note_load(progress, examples);
    result.seconds = progress.seconds();
    result.accuracy = sums_.accuracy();
    result.more = sums_.metrics();
    result.lr = optimizers_[0]->lr();
    evaluate_sets(result);
    average_over_ranks(result);
    history_.times.mark(StepPhase::kEvaluate);
    progress.finish(run_.batch, result.values());
    history_.epochs.push_back(result);
    in_epoch_ = false;
    call(&Callback::after_epoch);
    if (options_.on_epoch && !options_.on_epoch(result)) run_.stop("on_epoch returned false");
    if (const std::string reason = stop_reason(); run_.stop_reason.empty()) run_.stop(reason);
    if (parallel_) history_.signal = follow(options_.world.max(wish(), "whether to stop"));
    const bool is_last =
        history_.signal != 0 || !run_.stop_reason.empty() || finished() == options_.epochs;
    if (checkpoint_.is_wanted() && (is_last || finished() % options_.checkpoint_epochs == 0))
      checkpoint_.save();
    if (history_.signal != 0) tell_of(history_.signal);
    history_.times.skip();
  }

  /// All ranks get equal results, so that they decide alike.
  void average_over_ranks(EpochResult& result) const {
    double* const values[] = {&result.loss,           &result.accuracy, &result.train_loss,
                              &result.train_accuracy, &result.val_loss, &result.val_accuracy};
    std::vector<double> all;
    for (const double* value : values) all.push_back(*value);
    for (const auto& [name, value] : result.more) all.push_back(value);
    all = options_.world.mean(std::move(all), "results of the epoch");
    for (size_t i = 0; i < std::size(values); ++i) *values[i] = all[i];
    for (size_t i = 0; i < result.more.size(); ++i)
      result.more[i].second = all[std::size(values) + i];
  }

  void evaluate_sets(EpochResult& result) {
    std::optional<UseAverage> use;
    if (options_.average && (options_.evaluate_train || options_.validation))
      use.emplace(*options_.average);
    EvaluateOptions evaluation{.by_name = options_.by_name,
                               .loss = loss_fn_,
                               .accuracy = options_.accuracy,
                               .device = options_.device,
                               .amp = options_.amp,
                               .batch = options_.batch};
    if (options_.evaluate_train) {
      const LoaderState state = run_.data.state();
      const Evaluation train = evaluate(run_.model, run_.data, evaluation);
      run_.data.set_state(state);
      result.train_loss = train.loss;
      result.train_accuracy = train.accuracy;
    }
    if (options_.validation == nullptr) return;
    evaluation.metrics = options_.metrics;
    const Evaluation validation = evaluate(run_.model, *options_.validation, evaluation);
    result.val_loss = validation.loss;
    result.val_accuracy = validation.accuracy;
    for (const auto& [name, value] : validation.more)
      result.more.emplace_back("val_" + name, value);
  }

  void note_load(Progress& progress, int64_t examples) const {
    const Device where = device();
    progress.note(examples, is_available(where) ? memory_stats(where).in_use : 0);
  }

  /// Shows the sums of a step that the device has finished: of this one on the CPU, of an earlier
  /// one on a GPU. They are read in another stream, so nothing waits for the steps in between.
  /// Metrics have no copies that could be read later and are left out on a GPU.
  void show(Progress& progress, int64_t examples) {
    const Device where = device();
    if (!shown_) shown_ = {Moment(where), sums_, run_.batch, examples};
    if (!shown_->moment.query()) return;
    std::optional<cuda::StreamGuard> reads;
    if (where.type == DeviceType::kCuda) reads.emplace(cuda::Stream::create(where));
    note_load(progress, shown_->examples);
    NamedValues values{{"loss", shown_->sums.loss()}};
    if (const double accuracy = shown_->sums.accuracy(); !std::isnan(accuracy))
      values.emplace_back("accuracy", accuracy);
    if (!reads)
      for (const auto& [name, value] : sums_.metrics()) values.emplace_back(name, value);
    progress.update(shown_->batch, values);
    shown_.reset();
  }

  std::string stop_reason() const {
    if (history_.epochs.back().loss < options_.stop_below) return "the loss is below stop_below";
    for (const Callback& each : options_.callbacks)
      if (each.stop)
        if (std::string reason = each.stop(history_); !reason.empty()) return reason;
    return "";
  }

  /// Returns 0 to continue, 1 if this rank has a reason to end the run, or 1 + the number of a
  /// signal.
  int64_t wish() const {
    const int signal = interrupt_ ? interrupt_->signal() : 0;
    return signal != 0 ? 1 + signal : run_.stop_reason.empty() ? 0 : 1;
  }

  /// Stops this rank if another rank stops. Returns the signal.
  int follow(int64_t wish_of_ranks) {
    if (wish_of_ranks == 1 && run_.stop_reason.empty()) run_.stop("another rank stopped");
    return wish_of_ranks > 1 ? int(wish_of_ranks - 1) : 0;
  }

  /// Called after an update: writes the checkpoint if it is due, and returns whether the epoch ends
  /// here. Requests of other ranks to stop were sent with the gradients, so a reason that a rank
  /// has found since then takes effect after the next update.
  bool has_to_stop() {
    const int64_t wishes = parallel_ ? parallel_->heard() : wish();
    const int signal = follow(wishes);
    const bool stops = wishes != 0;
    const bool saves =
        checkpoint_.is_wanted() &&
        (stops || (options_.checkpoint_steps > 0 && run_.steps % options_.checkpoint_steps == 0));
    if (saves) checkpoint_.save();
    if (!stops) return false;
    history_.signal = signal;
    if (signal != 0) tell_of(signal);
    return true;
  }

  /// Prints where a signal has stopped the run.
  void tell_of(int signal) {
    run_.stop(signal_name(signal));
    if (options_.progress.out == nullptr) return;
    std::ostream& out = *options_.progress.out;
    out << '\n'
        << signal_name(signal) << ": stopped in epoch " << run_.epoch << " after batch "
        << run_.batch << " of " << run_.data.size();
    if (checkpoint_.is_wanted())
      out << "; saved to " << options_.checkpoint << ", from which a resumed run continues";
    else
      out << "; nothing was saved, because fit() has no .checkpoint";
    out << std::endl;
  }

  // ---- The checkpoint --------------------------------------------------------------------------

  /// State of fit() itself: the history, and the place and the sums in an unfinished epoch.
  struct Place {
    Fit& fit;

    TensorMap state_dict() const {
      TensorMap all{{"in_epoch", Tensor::full({}, fit.in_epoch_, i64)},
                    {"batch", Tensor::full({}, fit.run_.batch, i64)},
                    {"steps", Tensor::full({}, fit.run_.steps, i64)}};
      add_part(all, "history", fit.history_.state_dict());
      if (fit.in_epoch_) add_part(all, "sums", fit.sums_.state_dict());
      return all;
    }
    void load_state_dict(const TensorMap& state) {
      for (const char* name : {"in_epoch", "batch", "steps"})
        if (const auto found = state.find(name); found == state.end() || found->second.numel() != 1)
          fail<ArgumentError>("no integer \"", name, '"');
      fit.history_.load_state_dict(part_of(state, "history"));
      fit.in_epoch_ = state.at("in_epoch").item() != 0;
      fit.run_.batch = int64_t(state.at("batch").item());
      fit.run_.steps = int64_t(state.at("steps").item());
      if (fit.in_epoch_) fit.sums_.load_state_dict(part_of(state, "sums"));
    }
  };

  void describe_state() {
    if (!checkpoint_.is_wanted()) return;
    TrainingState& state = checkpoint_.state();
    const auto numbered = [](const char* name, size_t i) {
      return i == 0 ? name : name + std::to_string(i + 1);
    };
    state("fit", place_)("model", run_.model)("batches", run_.data);
    if (sharded_ != nullptr)
      state("optimizer", *sharded_);
    else
      for (size_t i = 0; i < optimizers_.size(); ++i)
        state(numbered("optimizer", i), *optimizers_[i]);
    if (scaler_.is_enabled()) state("scaler", scaler_);
    if (options_.average != nullptr) state("average", *options_.average);
    if (options_.validation != nullptr) state("validation", *options_.validation);
    size_t count = 0;
    for (const Callback& each : options_.callbacks)
      if (each.save) each.save(state, numbered("callback", count++));
  }

  void prepare_checkpoint() {
    checkpoint_.require_writable();
    if (!options_.resume) return;
    const bool resumed = checkpoint_.resume();
    checkpoint_.require_same_steps(resumed ? run_.steps : -1);
    if (!resumed || options_.progress.out == nullptr ||
        options_.progress.style == ProgressStyle::kNone)
      return;
    std::ostream& out = *options_.progress.out;
    out << options_.checkpoint << ": continues after epoch " << finished();
    if (in_epoch_) out << " and batch " << run_.batch << " of " << run_.data.size();
    out << (finished() >= options_.epochs ? "; all epochs are done" : "") << std::endl;
  }

  FitOptions options_;
  Optimizers optimizers_;
  dist::AnyShardedOptimizer* sharded_;  // null if there is none
  LossFn loss_fn_;
  optim::GradScaler scaler_;
  History history_;
  PassSums sums_;
  Training run_;
  GraphedStep step_, update_step_;
  FitCheckpoint checkpoint_{options_.checkpoint, options_.world};
  std::optional<dist::DataParallel> parallel_;  // if there are several ranks
  std::optional<Interrupt> interrupt_;
  Place place_{*this};
  std::shared_ptr<void> item_;  // the current batch of a loader of any fields
  Variable target_;             // of this batch
  /// Next values of the live line.
  struct Shown {
    Moment moment;
    PassSums sums;
    int64_t batch, examples;
  };
  std::optional<Shown> shown_;
  bool in_epoch_ = false;
  bool begins_group_ = true, ends_group_ = true;
  double group_examples_ = 0;
};

/// Reads .validation_data for the lifetime of the object.
class ValidationReader {
 public:
  explicit ValidationReader(FitOptions& options) {
    const auto& [x, y] = options.validation_data.tensors;
    Loader* const given = options.validation_data.loader;
    if (!x.defined() && given == nullptr) return;
    if (options.validation != nullptr)
      fail<ArgumentError>("fit: both .validation and .validation_data are given");
    if (given != nullptr) {
      options.validation = given;
      return;
    }
    loader_.emplace(TensorDataset(x, y),
                    DeviceLoaderOptions{.batch_size = options.batch_size,
                                        .device = options.device.value_or(x.device())});
    options.validation = &*loader_;
  }

 private:
  std::optional<DeviceLoader> loader_;
};

void require_no_split(const FitOptions& options) {
  if (options.validation_split != 0)
    fail<ArgumentError>(
        "fit: .validation_split divides tensors; divide a data set with "
        "random_split()");
}

}  // namespace

History fit(nn::Module& model, Loader& data, const Optimizers& optimizers, FitOptions options) {
  return at_line(options.by_name.where, [&] {
    require_no_split(options);
    const ValidationReader validation(options);
    check(model, options, data, optimizers, nullptr);
    return Fit(model, data, optimizers, nullptr, std::move(options)).run();
  });
}

History fit(nn::Module& model, Loader& data, dist::AnyShardedOptimizer& optimizer,
            FitOptions options) {
  return at_line(options.by_name.where, [&] {
    const Optimizers local{&optimizer.local_optimizer()};
    require_no_split(options);
    const ValidationReader validation(options);
    check(model, options, data, local, &optimizer);
    return Fit(model, data, local, &optimizer, std::move(options)).run();
  });
}

ValidationData::ValidationData(Variable data, Variable target)
    : tensors{std::move(data), std::move(target)} {}
ValidationData::ValidationData(Example example) : tensors(std::move(example)) {}
ValidationData::ValidationData(Loader& batches) : loader(&batches) {}
ValidationData::ValidationData(const TensorDataset& set) : tensors{set.data(), set.target()} {}
History fit(nn::Module& model, Loader& data, optim::Optimizer& optimizer, FitOptions options) {
  return fit(model, data, Optimizers{&optimizer}, std::move(options));
}
History fit(nn::Module& model, Loader&& data, optim::Optimizer& optimizer, FitOptions options) {
  return fit(model, data, optimizer, std::move(options));
}
History fit(nn::Module& model, const Variable& x, const Variable& y, optim::Optimizer& optimizer,
            FitOptions options) {
  return fit(model, x, y, Optimizers{&optimizer}, std::move(options));
}
History fit(nn::Module& model, Loader& data, optim::Optimizer&& optimizer, FitOptions options) {
  return fit(model, data, optimizer, std::move(options));
}
History fit(nn::Module& model, const Variable& x, const Variable& y, optim::Optimizer&& optimizer,
            FitOptions options) {
  return fit(model, x, y, optimizer, std::move(options));
}
}  // namespace tapegrad
