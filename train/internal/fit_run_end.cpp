// When a call of fit() ends before its last epoch, and the state that a later call continues from.
#include <ostream>

#include "core/base/error.h"
#include "io/safetensors.h"
#include "train/internal/fit_run.h"

namespace tapegrad {

std::string FitRun::stop_reason() const {
  if (history_.epochs.back().loss < options_.stop_below) return "the loss is below stop_below";
  for (const Callback& each : options_.callbacks)
    if (each.stop)
      if (std::string reason = each.stop(history_); !reason.empty()) return reason;
  return "";
}

int64_t FitRun::wish() const {
  const int signal = interrupt_ ? interrupt_->signal() : 0;
  return signal != 0 ? 1 + signal : run_.stop_reason.empty() ? 0 : 1;
}

int FitRun::follow(int64_t wish_of_ranks) {
  if (wish_of_ranks == 1 && run_.stop_reason.empty()) run_.stop("another rank stopped");
  return wish_of_ranks > 1 ? int(wish_of_ranks - 1) : 0;
}

bool FitRun::has_to_stop() {
  const int64_t wishes = parallel_ ? parallel_->heard() : wish();
  const int signal = follow(wishes);
  const bool stops = wishes != 0;
  const bool saves =
      checkpoint_.is_wanted() &&
      (stops || (options_.checkpoint_steps > 0 && run_.steps % options_.checkpoint_steps == 0));
  if (saves || stops) set_loader({loader_epoch_, run_.batch});
  if (saves) checkpoint_.save();
  if (!stops) return false;
  history_.signal = signal;
  if (signal != 0) tell_of(signal);
  return true;
}

void FitRun::tell_of(int signal) {
  run_.stop(signal_name(signal));
  if (options_.progress.out == nullptr) return;
  std::ostream& out = *options_.progress.out;
  out << '\n'
      << signal_name(signal) << ": stopped in epoch " << run_.epoch << " after batch " << run_.batch
      << " of " << run_.data.size();
  if (checkpoint_.is_wanted())
    out << "; saved to " << options_.checkpoint << ", from which a resumed run continues";
  else
    out << "; nothing was saved, because fit() has no .checkpoint";
  out << std::endl;
}

TensorMap FitRun::Place::state_dict() const {
  TensorMap all{{"in_epoch", Tensor::full({}, fit.in_epoch_, i64)},
                {"batch", Tensor::full({}, fit.run_.batch, i64)},
                {"steps", Tensor::full({}, fit.run_.steps, i64)}};
  add_part(all, "history", fit.history_.state_dict());
  if (fit.in_epoch_) add_part(all, "sums", fit.sums_.state_dict());
  return all;
}
void FitRun::Place::load_state_dict(const TensorMap& state) {
  for (const char* name : {"in_epoch", "batch", "steps"})
    if (const auto found = state.find(name); found == state.end() || found->second.numel() != 1)
      fail<ArgumentError>("no integer \"", name, '"');
  fit.history_.load_state_dict(part_of(state, "history"));
  fit.in_epoch_ = state.at("in_epoch").item() != 0;
  fit.run_.batch = int64_t(state.at("batch").item());
  fit.run_.steps = int64_t(state.at("steps").item());
  if (fit.in_epoch_) fit.sums_.load_state_dict(part_of(state, "sums"));
}

void FitRun::describe_state() {
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

void FitRun::prepare_checkpoint() {
  checkpoint_.require_writable();
  if (!options_.resume) return;
  const bool resumed = checkpoint_.resume();
  checkpoint_.require_same_steps(resumed ? run_.steps : -1);
  if (!resumed || options_.progress.out == nullptr ||
      options_.progress.style == ProgressStyle::kNone)
    return;
  std::ostream& out = *options_.progress.out;
  out << options_.checkpoint << ": continues ";
  if (in_epoch_)
    out << "in epoch " << finished() + 1 << " after batch " << run_.batch << " of "
        << run_.data.size();
  else if (finished() > 0)
    out << "after epoch " << finished();
  else
    out << "before the first epoch";
  out << (finished() >= options_.epochs ? "; all epochs are done" : "") << std::endl;
}

}  // namespace tapegrad
