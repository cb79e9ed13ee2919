// ShardedOptimizer: each rank keeps the optimizer state of a part of the parameters ("ZeRO stage
// 1"), so that the state of n ranks together is that of one process.
//
//   dist::DataParallel net(model, world);                       // averages the gradients
//   dist::ShardedOptimizer<optim::AdamW> opt(model, world, 1e-3);  // or its options
//   optim::CosineAnnealingLR schedule(opt.local(), 1000);
//   ...
//   opt.step();                                                  // updates all ranks' parameters
//   save("opt.safetensors", opt.state_dict());                   // whole; the same on all ranks
//
// The parameters are seen as one row of numbers, which is cut into size() equal parts. So the
// optimizer must treat each element by itself, as SGD, Adam, AdamW, RMSprop and Adadelta do; the
// updated parameters then have the bits of the unsharded optimizer.
#pragma once

#include <vector>

#include "core/base/tensor_map.h"
#include "dist/communicator.h"
#include "nn/module.h"

namespace tapegrad::dist {

/// The parameters as rows of numbers, one row for each dtype, and this rank's part of each.
class FlatParameters {
 public:
  /// Takes the parameters that require a gradient. Throws ArgumentError if there are none.
  FlatParameters(const nn::Module& model, const Communicator& world);

  /// This rank's parts: leaves with memory of their own.
  std::vector<Variable> parts() const;
  /// Copies values and gradients to the parts. Throws AutogradError if a parameter has none.
  void read() const;
  /// Copies the parts of all ranks to the parameters.
  void write() const;
  void zero_grad() const;

  /// The state of an optimizer of the parts, put together from all ranks.
  TensorMap gather(const TensorMap& state) const;
  /// This rank's part of such a state. Throws ArgumentError if it belongs to other parameters.
  TensorMap cut(const TensorMap& whole) const;

 private:
  struct Row {
    std::vector<Variable> leaves;
    int64_t numel = 0;  // of all leaves
    Variable part;      // the last one is filled up with zeros
  };
  template <typename Visit>
  void visit_part(const Row& row, Visit visit) const;

  Communicator world_;
  std::vector<Row> rows_;
};

/// Opt is a class of optim/optimizers.h. Not an optim::Optimizer itself; local() is.
template <typename Opt>
class ShardedOptimizer {
 public:
  template <typename Options>
  ShardedOptimizer(const nn::Module& model, const Communicator& world, const Options& options)
      : parameters_(model, world), local_(parameters_.parts(), options) {}

  /// Updates the parameters from their gradients, which must be equal on all ranks. A collective.
  void step() {
    parameters_.read();
    local_.step();
    parameters_.write();
  }
  void zero_grad() const { parameters_.zero_grad(); }
  /// The optimizer of this rank's part: for learning rates and schedules.
  Opt& local() { return local_; }

  /// The whole state, from which any number of ranks can continue. A collective.
  TensorMap state_dict() const { return parameters_.gather(local_.state_dict()); }
  void load_state_dict(const TensorMap& state) { local_.load_state_dict(parameters_.cut(state)); }

 private:
  FlatParameters parameters_;
  Opt local_;
};

}  // namespace tapegrad::dist
