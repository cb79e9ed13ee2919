// ShardedOptimizer: each rank keeps the optimizer state of a part of the parameters, so that n
// ranks together need as much memory for the state as one process.
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
// fit(model, batches, opt, {.world = world}) does this, too; with sharded gradients, pass the net
// as its model.
//
// The parameters are concatenated to rows of numbers, and each row is divided into size() equal
// parts. The optimizer must therefore be elementwise, as SGD, Adam, AdamW, RMSprop and Adadelta
// are. The updated parameters then have the same bits as with the unsharded optimizer, in both
// stages.
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
  /// Uses the buckets of the net as rows. Throws ArgumentError unless the net has shard_gradients.
  explicit FlatParameters(const DataParallel& net);

  /// Returns this rank's parts: leaves with separate memory.
  std::vector<Variable> parts() const;
  /// Returns whether the rows have gradients that only this object can read.
  bool shards_gradients() const { return reducer_ != nullptr; }
  /// Copies values and gradients to the parts. Throws AutogradError if a parameter has no gradient.
  void read() const;
  /// If a part of any rank has an infinity or NaN, writes one to the parts of all ranks, so that
  /// their GradScalers make the same decision. Call after read(). A collective.
  void spread_infinities() const;
  /// Scales the gradients of all ranks' parts as optim::clip_grad_norm_() scales the gradients of
  /// the whole model. Returns their norm before scaling. Call after read(). A collective.
  double clip(double max_norm) const;
  /// Copies the parts of all ranks to the parameters.
  void write() const;
  void zero_grad() const;

  /// Converts the state of an optimizer of the parts to the state of an optimizer of the model. A
  /// collective.
  TensorMap gather(const TensorMap& state) const;
  /// Returns this rank's part of gather(); see ShardedOptimizer::shard_dict().
  TensorMap name_shards(const TensorMap& state) const;
  /// Returns the inverse of gather(). Throws ArgumentError if the state belongs to other
  /// parameters.
  TensorMap cut(const TensorMap& whole) const;

 private:
  struct Row {
    std::vector<size_t> indices = {};  // indices of the leaves among the model's parameters
    std::vector<Variable> leaves = {};
    int64_t numel = 0;   // of all leaves
    Variable part = {};  // the part of the last rank is padded with zeros
  };
  void make_rows(const std::vector<Variable>& parameters,
                 const std::vector<std::vector<size_t>>& groups);
  template <typename Visit>
  void visit_part(const Row& row, Visit visit) const;
  /// Calls visit(row, name of the state, tensor) for states of rows, and other(name, tensor) for
  /// all other entries.
  template <typename Visit, typename Other>
  void visit_state(const TensorMap& state, Visit visit, Other other) const;

  Communicator world_;
  size_t count_ = 0;  // number of the model's parameters
  std::vector<Row> rows_;
  std::shared_ptr<GradientReducer> reducer_;  // null: the leaves have gradients
};

/// Part of ShardedOptimizer that does not depend on the class of the optimizer.
class AnyShardedOptimizer {
 public:
  AnyShardedOptimizer(const AnyShardedOptimizer&) = delete;
  AnyShardedOptimizer& operator=(const AnyShardedOptimizer&) = delete;
  virtual ~AnyShardedOptimizer() = default;
  /// Returns the optimizer of this rank's part.
  virtual optim::Optimizer& local_optimizer() = 0;

  /// Updates the parameters of all ranks. A collective. With shard_gradients, consumes the
  /// gradients: a second step() requires another backward pass.
  void step();
  /// step() with gradients whose norm is clipped as by optim::clip_grad_norm_(). Returns the norm
  /// before clipping.
  double clip_and_step(double max_norm);
  /// Equivalent to scaler.step(optimizer), with gradients that are clipped if `max_norm` is given.
  /// All ranks make the step or all skip it. Call scaler.update() next.
  bool step(optim::GradScaler& scaler, std::optional<double> max_norm = {});
  void zero_grad() const;
  /// For code between backward() and step(): read() copies the gradients to the parameters of
  /// local_optimizer(), and write() copies their values to the model.
  const FlatParameters& flat() const { return parameters_; }

  /// Returns the whole state, in the format of an unsharded optimizer of the model. Any number of
  /// ranks, or an unsharded optimizer, can continue from it. A collective.
  TensorMap state_dict() const;
  void load_state_dict(const TensorMap& state);
  /// Returns this rank's part of state_dict(), without communication. "state.3.exp_avg@128" is a
  /// row of the elements of state.3.exp_avg from number 128 on; "state.3.exp_avg@shape" is the
  /// shape of the whole tensor. The parts of all ranks together contain all elements.
  TensorMap shard_dict() const;

 protected:
  explicit AnyShardedOptimizer(FlatParameters parameters);
  virtual TensorMap state_of_part() const = 0;

  FlatParameters parameters_;
};

/// Opt is a class of optim/optimizers.h. ShardedOptimizer itself is not an optim::Optimizer;
/// local() is.
template <typename Opt>
class ShardedOptimizer final : public AnyShardedOptimizer {
  static_assert(
      !requires { Opt::kNeedsShapes; },
      "ShardedOptimizer: the optimizer needs the shapes of the parameters, of which each "
      "rank has parts: type dist::DataParallel and the optimizer itself");

 public:
  /// Makes an optimizer of a model ("ZeRO stage 1"). The gradients must be equal on all ranks.
  template <typename Options>
  ShardedOptimizer(const nn::Module& model, const Communicator& world, const Options& options)
      : AnyShardedOptimizer(FlatParameters(model, world)), local_(parameters_.parts(), options) {}
  /// Makes an optimizer of a net with shard_gradients ("ZeRO stage 2").
  template <typename Options>
  ShardedOptimizer(const DataParallel& net, const Options& options)
      : AnyShardedOptimizer(FlatParameters(net)), local_(parameters_.parts(), options) {}

  /// Returns the optimizer of this rank's part, for learning rates and schedules.
  Opt& local() { return local_; }
  optim::Optimizer& local_optimizer() override { return local_; }

 private:
  TensorMap state_of_part() const override { return local_.state_dict(); }

  Opt local_;
};

}  // namespace tapegrad::dist
