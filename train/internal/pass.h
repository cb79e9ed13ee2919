// Code shared by training and evaluation. Not part of the public interface.
#pragma once

#include <optional>
#include <vector>

#include "data/loader.h"
#include "nn/module.h"
#include "train/evaluate.h"

namespace tapegrad {

/// Returns the loss function, or cross_entropy if it is empty.
LossFn or_cross_entropy(LossFn loss);

void move_to(const std::optional<Device>& device, Example& batch);

/// Throws ArgumentError if the loader's batches are not examples and there is no function for them.
void require_batch_fn(const char* caller, const Loader& data, const BatchFn& batch_fn);
/// Runs the model and the loss, or the function of the batch. `where` is the user's line. Throws
/// ArgumentError unless the loss has one element.
BatchResult run_batch(nn::Module& model, const LossFn& loss, const BatchFn& batch_fn,
                      const Example& batch, void* item, Where where);

/// Running means of loss and accuracy, and metrics, over one pass.
class PassSums {
 public:
  PassSums(bool accuracy, const LossFn& loss, std::vector<MetricRef> metrics);

  /// Adds a batch of n examples; n is the number of outputs if there are outputs. The loss is the
  /// mean over these.
  void add(const BatchResult& batch, int64_t n);
  void reset();
  double loss() const { return loss_.value(); }
  double accuracy() const { return accuracy_.value(); }  // NaN if the targets are not classes
  /// Returns the predicted classes of outputs of the model.
  Variable predicted(const Variable& output) const;
  /// Returns the metrics' values, with the prefix before each name.
  NamedValues metrics(const std::string& prefix = "") const;

  TensorMap state_dict() const;
  void load_state_dict(const TensorMap& state);

 private:
  /// Returns the share of correct predictions, one float64 element: NaN if the targets are not
  /// classes. Classes are integers, or 0 and 1 for a single output, or rows of probabilities. If
  /// the loss takes logits, each element of a target is a class, 0 or 1.
  Variable share_correct(const Variable& output, const Variable& target) const;

  bool counts_, takes_logits_;
  std::vector<MetricRef> metrics_;
  RunningMean loss_, accuracy_;
};

/// Adds the entries of a part as "part.name"; part_of() in io/safetensors.h returns them.
void add_part(TensorMap& all, const std::string& part, const TensorMap& state);

}  // namespace tapegrad
