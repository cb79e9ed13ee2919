// One call of fit(). Not part of the public interface.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dist/data_parallel.h"
#include "dist/sharded_optimizer.h"
#include "train/fit.h"
#include "train/graphed_step.h"
#include "train/internal/fit_checkpoint.h"
#include "train/internal/pass.h"
#include "train/interrupt.h"

namespace tapegrad {

class FitRun {
 public:
  /// If there is a sharded optimizer, `optimizers` is its local one.
  FitRun(nn::Module& model, Loader& data, const Optimizers& optimizers,
         dist::AnyShardedOptimizer* sharded, FitOptions options);

  History run();

 private:
  using Phases = Callback::Phase Callback::*;

  /// Returns the device on which the steps are computed.
  Device device() const;

  static constexpr const char* kNotGraphed =
      "gradients are accumulated, sharded, or read by a callback, or the batches have fields of "
      "their own";

  /// Returns the options with the ranks of the model, if the model is a DataParallel.
  static FitOptions with_ranks_of(const nn::Module& model, FitOptions options);
  void make_parallel();

  optim::GradScalerOptions scaler_options() const;
  bool has(Phases phase) const;
  bool can_be_graphed() const;
  /// Returns whether gradients are sent between the backward pass and the update, because a
  /// captured backward pass cannot send.
  bool sends_later() const;
  void call(Phases phase);
  int64_t finished() const { return int64_t(history_.epochs.size()); }

  // ---- The step --------------------------------------------------------------------------------

  /// Returns loss, output and target of a batch. Updates the weights at the end of a group.
  std::vector<Variable> compute(const Variable& x, const Variable& target);

  void zero_grad();
  void update();
  void clip_norm(double max_norm);

  /// Returns the parameters of all optimizers.
  std::vector<Variable> parameters() const;

  /// Computes the position of the current batch in its group of accumulated batches.
  void place_in_group();

  // ---- The epoch -------------------------------------------------------------------------------

  void run_epoch();
  void end_epoch(Progress& progress, int64_t examples);

  /// Sets the state of the training loader if a callback has read other batches from it.
  void set_loader(LoaderState state);

  /// All ranks get equal results, so that they decide alike.
  void average_over_ranks(EpochResult& result) const;

  void evaluate_sets(EpochResult& result);
  void note_load(Progress& progress, int64_t examples) const;

  /// Shows the sums of a step that the device has finished: of this one on the CPU, of an earlier
  /// one on a GPU. They are read in another stream, so nothing waits for the steps in between.
  /// Metrics have no copies that could be read later and are left out on a GPU.
  void show(Progress& progress, int64_t examples);

  // ---- The end ---------------------------------------------------------------------------------

  std::string stop_reason() const;

  /// Returns 0 to continue, 1 if this rank has a reason to end the run, or 1 + the number of a
  /// signal.
  int64_t wish() const;

  /// Stops this rank if another rank stops. Returns the signal.
  int follow(int64_t wish_of_ranks);

  /// Called after an update: writes the checkpoint if it is due, and returns whether the epoch ends
  /// here. Requests of other ranks to stop were sent with the gradients, so a reason that a rank
  /// has found since then takes effect after the next update.
  bool has_to_stop();

  /// Prints where a signal has stopped the run.
  void tell_of(int signal);

  // ---- The checkpoint --------------------------------------------------------------------------

  /// State of fit() itself: the history, and the place and the sums in an unfinished epoch.
  struct Place {
    FitRun& fit;

    TensorMap state_dict() const;
    void load_state_dict(const TensorMap& state);
  };

  void describe_state();
  void prepare_checkpoint();

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
  uint64_t loader_epoch_ = 0;  // that of the training loader in this epoch
  bool in_epoch_ = false;
  bool begins_group_ = true, ends_group_ = true;
  double group_examples_ = 0;
};

}  // namespace tapegrad
