// ShardedOptimizer: each rank keeps the optimizer state of a part of the parameters, so that the
// state of n ranks together is that of one process.
//
//   dist::DataParallel net(model, world);                          // all ranks have all gradients
//   dist::ShardedOptimizer<optim::AdamW> opt(model, world, 1e-3);  // "ZeRO stage 1"
//
//   dist::DataParallel net(model, world, {.shard_gradients = true});
//   dist::ShardedOptimizer<optim::AdamW> opt(net, 1e-3);  // "ZeRO stage 2": gradients, too
//
//   optim::CosineAnnealingLR schedule(opt.local(), 1000);
//   ...
//   opt.step();                                           // updates all ranks' parameters
//   opt.clip_and_step(1.0);                               // ... with the norm of all gradients
//   opt.step(scaler);                                     // ... with an optim::GradScaler
//   TrainingState run;                                    // train/training_state.h
//   run("model", model)("optimizer", opt)("batches", batches);
//   run.save("run.safetensors", world);                   // each rank writes its part
//
// fit(model, batches, opt, {.world = world}) does this, too; with sharded gradients, its model is
// the net.
//
// The parameters are seen as rows of numbers, of which each is cut into size() equal parts. So the
// optimizer must treat each element by itself, as SGD, Adam, AdamW, RMSprop and Adadelta do; the
// updated parameters then have the bits of the unsharded optimizer, in both stages.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/base/tensor_map.h"
#include "dist/communicator.h"
#include "nn/module.h"
#include "optim/grad_scaler.h"

namespace tapegrad::dist {

class DataParallel;
class GradientReducer;

/// The parameters as rows of numbers, and this rank's part of each row.
class FlatParameters {
 public:
  /// Takes the parameters that require a gradient. Throws ArgumentError if there are none.
  FlatParameters(const nn::Module& model, const Communicator& world);
  /// The rows are the buckets of the net, which must have shard_gradients; else throws
  /// ArgumentError.
  explicit FlatParameters(const DataParallel& net);

  /// This rank's parts: leaves with memory of their own.
  std::vector<Variable> parts() const;
  /// Whether the rows have gradients that only this object can read.
  bool shards_gradients() const { return reducer_ != nullptr; }
  /// Copies values and gradients to the parts. Throws AutogradError if a parameter has no gradient.
  void read() const;
  /// After read(): if a part of a rank has an infinity or NaN, so have the parts of all ranks
  /// afterwards, so that their GradScalers decide alike. A collective.
  void spread_infinities() const;
  /// After read(): scales the gradients of all ranks' parts as optim::clip_grad_norm_() scales
  /// those of the whole model. Returns their norm before. A collective.
  double clip(double max_norm) const;
  /// Copies the parts of all ranks to the parameters.
  void write() const;
  void zero_grad() const;

  /// Turns the state of an optimizer of the parts into that of an optimizer of the model.
  TensorMap gather(const TensorMap& state) const;
  /// Returns this rank's part of gather(): see ShardedOptimizer::shard_dict().
  TensorMap name_shards(const TensorMap& state) const;
  /// The inverse of gather(). Throws ArgumentError if the state belongs to other parameters.
  TensorMap cut(const TensorMap& whole) const;

 private:
  struct Row {
    std::vector<size_t> indices = {};  // of the leaves among the model's parameters
    std::vector<Variable> leaves = {};
    int64_t numel = 0;   // of all leaves
    Variable part = {};  // the last one is filled up with zeros
  };
  void make_rows(const std::vector<Variable>& parameters,
                 const std::vector<std::vector<size_t>>& groups);
  template <typename Visit>
  void visit_part(const Row& row, Visit visit) const;
  /// Calls visit(row, name of the state, tensor) for the states of rows, and other(name, tensor)
  /// for the rest.
  template <typename Visit, typename Other>
  void visit_state(const TensorMap& state, Visit visit, Other other) const;

  Communicator world_;
  size_t count_ = 0;  // of the model's parameters
  std::vector<Row> rows_;
  std::shared_ptr<GradientReducer> reducer_;  // null: the leaves have gradients
};

/// What sharded optimizers of any kind have in common.
class AnyShardedOptimizer {
 public:
  AnyShardedOptimizer(const AnyShardedOptimizer&) = delete;
  AnyShardedOptimizer& operator=(const AnyShardedOptimizer&) = delete;
  virtual ~AnyShardedOptimizer() = default;
  /// The optimizer of this rank's part.
  virtual optim::Optimizer& local_optimizer() = 0;

  /// Updates the parameters of all ranks. A collective. With shard_gradients it uses the gradients
  /// up: a second step() needs another backward pass.
  void step();
  /// As step(), with gradients whose norm is clipped as by optim::clip_grad_norm_(). Returns the
  /// norm before.
  double clip_and_step(double max_norm);
  /// As scaler.step(optimizer), with gradients that are clipped if `max_norm` is given. All ranks
  /// make the step or skip it. Call scaler.update() next.
  bool step(optim::GradScaler& scaler, std::optional<double> max_norm = {});
  void zero_grad() const { parameters_.zero_grad(); }
  /// For code that does more between backward() and step(): read() gives the gradients to the
  /// parameters of local_optimizer(), and write() takes their values to the model.
  const FlatParameters& flat() const { return parameters_; }

  /// The whole state, as an unsharded optimizer of the model has it: any number of ranks can
  /// continue from it, and so can an unsharded one. A collective.
  TensorMap state_dict() const { return parameters_.gather(state_of_part()); }
  void load_state_dict(const TensorMap& state) {
    local_optimizer().load_state_dict(parameters_.cut(state));
  }
  /// This rank's part of state_dict(), without communication. "state.3.exp_avg@128" is a row of the
  /// elements of state.3.exp_avg from number 128; "state.3.exp_avg@shape" is the shape of the
  /// whole. Together the ranks have all elements.
  TensorMap shard_dict() const { return parameters_.name_shards(state_of_part()); }

 protected:
  explicit AnyShardedOptimizer(FlatParameters parameters) : parameters_(std::move(parameters)) {}
  virtual TensorMap state_of_part() const = 0;

  FlatParameters parameters_;
};

/// Opt is a class of optim/optimizers.h. Not an optim::Optimizer itself; local() is.
template <typename Opt>
class ShardedOptimizer final : public AnyShardedOptimizer {
 public:
  /// The gradients must be equal on all ranks.
  template <typename Options>
  ShardedOptimizer(const nn::Module& model, const Communicator& world, const Options& options)
      : AnyShardedOptimizer(FlatParameters(model, world)), local_(parameters_.parts(), options) {}
  /// Of a net with shard_gradients.
  template <typename Options>
  ShardedOptimizer(const DataParallel& net, const Options& options)
      : AnyShardedOptimizer(FlatParameters(net)), local_(parameters_.parts(), options) {}

  /// The optimizer of this rank's part: for learning rates and schedules.
  Opt& local() { return local_; }
  optim::Optimizer& local_optimizer() override { return local_; }

 private:
  TensorMap state_of_part() const override { return local_.state_dict(); }

  Opt local_;
};

}  // namespace tapegrad::dist
