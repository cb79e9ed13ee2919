// LeafObserver: receives the gradient of a leaf as soon as the gradient is complete, while the
// backward pass still runs for older nodes. The observer may replace the gradient before it is
// accumulated. Used by dist/data_parallel.h. Internal to the library.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace tapegrad {

class Variable;
struct BackwardOptions;

/// Observer of the passes of Variable::backward() on any thread. Passes of grad() are not observed,
/// because they change no leaf.
class LeafObserver {
 public:
  virtual ~LeafObserver() = default;

  virtual std::span<const Variable> leaves() const = 0;
  /// Returns whether to observe passes of this thread. If not, the pass does not search for the
  /// leaves.
  virtual bool observes_this_thread() const { return true; }
  /// Called before the first rule of a pass that reaches at least one of the leaves. reached[i]
  /// tells whether the pass has a path to leaf i. Returns whether to observe the pass.
  virtual bool begin(const std::vector<bool>& reached, const BackwardOptions& options) = 0;
  /// Called between two rules, after the leaf's own hooks, when the pass will send nothing more to
  /// leaf i. An empty gradient is zero. Leaves are reported in an order that depends only on the
  /// graph. The observer may take the gradient away, to free its memory during the pass.
  virtual void on_gradient(size_t leaf, Variable& gradient) = 0;
  /// Called after the last rule, before gradients are accumulated. Slot i is the gradient that will
  /// be added to leaf i; an empty slot adds nothing. The observer may replace slots.
  virtual void finish(std::span<Variable> gradients) = 0;
  /// Called instead of finish() if the pass ends with an error.
  virtual void cancel() noexcept = 0;
};

/// Registers an observer until it is destroyed.
void add_leaf_observer(const std::shared_ptr<LeafObserver>& observer);
std::vector<std::shared_ptr<LeafObserver>> leaf_observers();
/// Returns whether an observer may exist. Without an observer, a pass costs one more atomic read.
bool has_leaf_observers();

}  // namespace tapegrad
