// The backward pass and leaves. Internal to the library.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/row_gradient.h"
#include "core/tape/internal/leaf_observer.h"
#include "core/tape/recording.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// A leaf of the tape, which keeps its gradient. Threads may accumulate into it concurrently.
class Leaf final : public TapeNode {
 public:
  explicit Leaf(const Tensor& value) : type_{value.shape(), value.dtype(), value.device()} {
    output_types_ = &type_;
  }

  std::string_view name() const override { return "leaf"; }
  std::span<const TapeEdge> edges() const override { return {}; }
  std::span<Variable> gradients() override { return {}; }
  void run(BackwardPass&) override {}
  void free_saved() override {}

  const Shape& shape() const { return type_.shape; }
  DType dtype() const { return type_.dtype; }
  /// Returns the gradient as a dense tensor, also if it was kept as rows.
  Variable gradient() const;
  /// Returns the gradient if it is kept as rows, otherwise null.
  RowGradientPtr rows() const;
  void clear_gradient();
  void set_gradient(Variable gradient);
  /// Accumulates a gradient and calls the hooks. Never shares the buffer of `gradient` with another
  /// owner.
  void add_gradient(Variable gradient);
  void add_rows(RowGradientPtr rows);
  /// Makes the leaf keep its gradient: a backward pass calls the hooks and accumulates nothing.
  /// The leaf of a variable is frozen after requires_grad_(false).
  void set_frozen(bool frozen) { frozen_.store(frozen, std::memory_order_relaxed); }
  HookHandle register_accumulate_hook(AccumulateHook hook);
  /// Returns a number that changes when a hook is added or removed.
  uint64_t hooks_state() const;

  /// Returns the parameter name in a model, such as "fc1.weight"; null before the first call of the
  /// model.
  const std::string* label() const { return label_.load(std::memory_order_relaxed); }
  void set_label(const std::string* label) { label_.store(label, std::memory_order_relaxed); }

 private:
  friend class BackwardPass;

  void make_dense() const;  // requires mutex_
  void run_accumulate_hooks();

  ValueType type_;
  mutable std::mutex mutex_;
  mutable Variable gradient_;
  mutable RowGradientPtr rows_;   // the gradient as rows, in place of gradient_
  std::atomic<size_t> place_{0};  // index in leaves_ of the pass that last reached the leaf
  std::atomic<const std::string*> label_{nullptr};
  std::atomic<bool> frozen_{false};
};

/// One run of the chain rule. Nodes that have received a gradient wait in a heap; the youngest node
/// runs first, because its consumers, which are younger, have then all run. The pass visits only
/// nodes that the roots reach, and needs no sort, no visited set and no recursion.
///
/// A pass with captures first walks the graph and then runs only rules on a path to a captured
/// edge.
///
/// Gradients of leaves are summed inside the pass and handed over at its end, so hooks see complete
/// gradients and an error leaves every leaf unchanged.
class BackwardPass {
 public:
  explicit BackwardPass(BackwardOptions options) : options_(options) {}
  ~BackwardPass();

  /// Adds a root, where the pass starts; call before run(). An empty seed means 1 for a root of one
  /// element.
  void add_root(const Variable& root, Variable seed);
  /// Stores the gradient that arrives at an edge, or an empty Variable if none arrives; call before
  /// run(). With captures, the pass skips leaves and rules that are not on a path to a captured
  /// edge.
  void capture(const TapeEdge& edge, Variable* into);
  /// Passes the gradients that arrive at each node to a function, in place of the nodes' hooks;
  /// call before run().
  using Watch = std::function<void(const TapeNode& node, std::span<const Variable> gradients)>;
  void watch(Watch watch) { watch_ = std::move(watch); }
  void run();
  void add_to_leaves();

  /// Adds a gradient of one input. An empty gradient means zero. For rules of nodes.
  void send(const TapeEdge& edge, Variable&& gradient);
  /// send() for a leaf whose gradient consists of rows. Requires takes_rows().
  void send_rows(const TapeEdge& edge, RowGradientPtr rows);
  bool takes_rows(const TapeEdge& edge) const;
  /// Implementation of gradient_sum() (core/tape/view.h) for the edge.
  Tensor gradient_sum(const TapeEdge& edge);
  /// Returns the pass that runs a rule on this thread, or null.
  static BackwardPass* running();
  /// Returns whether a gradient sent to the edge has an effect.
  bool wants(const TapeEdge& edge) const {
    return captures_.empty() || needed_.contains(&*edge.node);
  }
  /// Returns whether a rule may send the gradient of the operand of the node at the edge, so that
  /// the rule of that node need not run. The edge must be the only owner of the node, and nothing
  /// may observe the node.
  bool can_send_past(const TapeEdge& edge) const;
  /// Implementation of Needs::front() for the edge.
  const SavedValue* front(const TapeEdge& edge, Activation& activation) const;
  /// Adds a gradient of the first operand of the node at the edge, whose rule does not run.
  void send_past(const TapeEdge& edge, Variable&& gradient);

 private:
  struct Pending {
    uint64_t number;
    TapeNode* node;
    bool operator<(const Pending& other) const { return number < other.number; }
  };

  void enqueue(TapeNode& node);
  void find_needed();
  void run_rule(TapeNode& node);
  void run_watched(TapeNode& node);
  void take_captures(TapeNode& node, std::span<Variable> gradients);

  // core/tape/internal/observed_leaves.cpp
  void find_observed();
  void report_leaves(uint64_t next);
  void replace_observed();
  bool is_reported(const Leaf& leaf) const;

  struct LeafSum {
    Leaf* leaf;
    Variable sum;
    RowGradientPtr rows = nullptr;  // the gradient as rows, in place of `sum`

    void make_dense();
  };
  /// Returns the index of a leaf in leaves_, or leaves_.size().
  size_t find(Leaf& leaf) const;
  void append(Leaf& leaf, Variable&& sum);
  /// Returns the sum of the gradients that have arrived at the edge; empty before the first one.
  Variable& sum_at(const TapeEdge& edge);

  struct Root {
    Variable root;  // keeps all nodes of the pass alive
    Variable seed;
  };

  std::vector<Root> roots_;
  const BackwardOptions options_;
  std::vector<Pending> heap_;
  std::vector<LeafSum> leaves_;
  std::unordered_map<const Leaf*, size_t> places_;
  std::vector<std::pair<TapeEdge, Variable*>> captures_;
  std::unordered_map<const TapeNode*, bool> needed_;  // filled if there are captures; the value
                                                      // tells whether the rule must run
  struct Observed {
    uint64_t oldest_consumer;  // number of the oldest reached node that sends to the leaf
    Leaf* leaf;
    LeafObserver* observer;
    size_t index;  // in observer->leaves()
  };
  std::vector<Observed> observed_;  // in the order in which they become complete
  size_t reported_ = 0;             // entries of observed_ that are complete
  std::vector<std::shared_ptr<LeafObserver>> observers_;  // of this pass, until replace_observed()

  Watch watch_;
  std::vector<Variable>* sent_ = nullptr;  // collects the gradients of a watched rule before they
                                           // are sent
};

namespace detail {

/// Returns whether a gradient fits a value of the type.
inline bool has_type(const Variable& gradient, const ValueType& type) {
  const Tensor& value = gradient.value();
  return value.dtype() == type.dtype && value.device() == type.device &&
         value.shape() == type.shape;
}

/// Throws AutogradError with both types: "hook 1 of mul, recorded at model.cpp:12: a gradient of
/// [2] float32 for a value of [3] float32".
[[noreturn, gnu::cold]] void fail_gradient(const std::string& maker, const Variable& gradient,
                                           const ValueType& type);

}  // namespace detail

}  // namespace tapegrad
