#include "train/internal/fit_run.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "absl/cleanup/cleanup.h"

#include "core/base/allocator.h"
#include "core/base/error.h"
#include "core/cuda.h"
#include "core/tape/autocast.h"
#include "nn/internal/module_modes.h"
#include "ops/binary.h"
#include "optim/clip.h"

namespace tapegrad {

FitRun::FitRun(nn::Module& model, Loader& data, const Optimizers& optimizers,
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

History FitRun::run() {
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

Device FitRun::device() const {
  if (options_.device) return *options_.device;
  const std::vector<Variable> weights = optimizers_[0]->parameters();
  return weights.empty() ? default_device() : weights[0].device();
}

FitOptions FitRun::with_ranks_of(const nn::Module& model, FitOptions options) {
  if (const auto* net = dynamic_cast<const dist::DataParallel*>(&model))
    options.world = net->world();
  return options;
}

void FitRun::make_parallel() {
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

optim::GradScalerOptions FitRun::scaler_options() const {
  optim::GradScalerOptions made = options_.scaler;
  made.enabled = made.enabled && options_.amp == f16;
  return made;
}

bool FitRun::has(Phases phase) const {
  return std::ranges::any_of(options_.callbacks,
                             [&](const Callback& each) { return bool(each.*phase); });
}

bool FitRun::can_be_graphed() const {
  return options_.accumulate == 1 && !has(&Callback::after_backward) && sharded_ == nullptr &&
         !options_.batch;
}

bool FitRun::sends_later() const {
  return options_.graph && can_be_graphed() && options_.world.size() > 1;
}

void FitRun::call(Phases phase) {
  for (const Callback& each : options_.callbacks)
    if (each.*phase) (each.*phase)(run_);
}

// ---- The step ----------------------------------------------------------------------------------

std::vector<Variable> FitRun::compute(const Variable& x, const Variable& target) {
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

void FitRun::zero_grad() {
  if (sharded_ != nullptr) return sharded_->zero_grad();
  for (optim::Optimizer* optimizer : optimizers_) optimizer->zero_grad();
}

void FitRun::update() {
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

void FitRun::clip_norm(double max_norm) {
  if (sharded_ != nullptr)
    sharded_->flat().clip(max_norm);
  else
    optim::detail::clip_grad_norm(parameters(), max_norm, 2.0, false, /*reads_norm=*/false);
}

std::vector<Variable> FitRun::parameters() const {
  std::vector<Variable> all;
  for (const optim::Optimizer* optimizer : optimizers_)
    for (Variable& each : optimizer->parameters()) all.push_back(std::move(each));
  return all;
}

void FitRun::place_in_group() {
  const int64_t batches = run_.data.size(), k = options_.accumulate;
  const int64_t first = (run_.batch - 1) / k * k, end = std::min(first + k, batches);
  begins_group_ = run_.batch - 1 == first;
  ends_group_ = run_.batch == end;
  const int64_t size = run_.data.batch_size();
  group_examples_ = double(std::min(end * size, run_.data.num_examples()) - first * size);
}

// ---- The epoch ---------------------------------------------------------------------------------

void FitRun::run_epoch() {
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
  auto at = run_.data.begin();
  // A checkpoint behind the last batch continues at the end, from which the loader has moved on.
  loader_epoch_ = run_.data.state().epoch - (at == run_.data.end() ? 1 : 0);
  for (; at != run_.data.end(); ++at) {
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
  set_loader({loader_epoch_ + 1, 0});
  run_.output = run_.loss = {};
  end_epoch(progress, examples);
}

void FitRun::set_loader(LoaderState state) {
  if (run_.data.state() != state) run_.data.set_state(state);
}

void FitRun::end_epoch(Progress& progress, int64_t examples) {
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

void FitRun::average_over_ranks(EpochResult& result) const {
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

void FitRun::evaluate_sets(EpochResult& result) {
  std::optional<UseAverage> use;
  if (options_.average && (options_.evaluate_train || options_.validation))
    use.emplace(*options_.average);
  EvaluateOptions evaluation{.by_name = options_.by_name,
                             .loss = loss_fn_,
                             .accuracy = options_.accuracy,
                             .device = options_.device,
                             .amp = options_.amp,
                             .batch = options_.batch};
  result.has_train = options_.evaluate_train;
  result.has_val = options_.validation != nullptr;
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
  for (const auto& [name, value] : validation.more) result.more.emplace_back("val_" + name, value);
}

void FitRun::note_load(Progress& progress, int64_t examples) const {
  const Device where = device();
  progress.note(examples, is_available(where) ? memory_stats(where).in_use : 0);
}

void FitRun::show(Progress& progress, int64_t examples) {
  const Device where = device();
  if (!shown_) shown_ = {Moment(where), sums_, run_.batch, examples};
  if (!shown_->moment.query()) return;
  std::optional<cuda::StreamGuard> reads;
  if (where.type == DeviceType::kCuda) reads.emplace(cuda::Stream::create(where));
  note_load(progress, shown_->examples);
  EpochResult part;
  part.loss = shown_->sums.loss();
  part.accuracy = shown_->sums.accuracy();
  if (!reads) part.more = sums_.metrics();
  progress.update(shown_->batch, part.values());
  shown_.reset();
}

}  // namespace tapegrad
