// The backward pass and the leaves it ends in. Not needed by users of the library.
#pragma once

#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/tape/recording.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// A variable that ends the chain rule and keeps its gradient. Threads may add to it concurrently.
class Leaf final : public Node {
 public:
  Leaf(const Shape& shape, DType dtype) : shape_(shape), dtype_(dtype) {}

  std::string_view name() const override { return "leaf"; }
  std::span<const Edge> edges() const override { return {}; }
  std::span<Variable> gradients() override { return {}; }
  void run(BackwardPass&) override {}
  void free_saved() override {}

  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  Variable gradient() const;
  void clear_gradient();
  void set_gradient(Variable gradient);
  /// Never shares the buffer of `gradient` with another owner. Calls the hooks.
  void add_gradient(Variable gradient);
  HookHandle register_accumulate_hook(AccumulateHook hook);

  /// The name it has in a model, "fc1.weight", once the model was called; or null.
  const std::string* label() const { return label_.load(std::memory_order_relaxed); }
  void set_label(const std::string* label) { label_.store(label, std::memory_order_relaxed); }

 private:
  friend class BackwardPass;

  Shape shape_;
  DType dtype_;
  mutable std::mutex mutex_;
  Variable gradient_;
  std::atomic<size_t> place_{0};  // among the leaves of the pass that met it last
  std::atomic<const std::string*> label_{nullptr};
};

/// One run of the chain rule. Nodes that hold a gradient wait in a heap and the youngest runs
/// first: by then all its consumers, which are younger, have run. Only what the roots reach is
/// visited; no sort, no visited set, no recursion.
///
/// A pass that captures walks the graph first and then runs only what leads to the captured edges.
///
/// Gradients of leaves are summed inside the pass and handed over at its end, so that hooks see
/// complete gradients and an error leaves every leaf unchanged.
class BackwardPass {
 public:
  explicit BackwardPass(BackwardOptions options) : options_(options) {}
  ~BackwardPass();

  /// Before run(): where to begin. An empty seed is a 1, for a root of one element.
  void add_root(const Variable& root, Variable seed);
  /// Before run(): keeps the gradient that arrives at an edge; the result is empty if none does.
  /// A pass that captures leaves out what it was not asked for: leaves, and rules on no way there.
  void capture(const Edge& edge, Variable* into);
  /// Before run(): shows what arrives at each node to a function, in place of the nodes' hooks.
  using Watch = std::function<void(const Node& node, std::span<const Variable> gradients)>;
  void watch(Watch watch) { watch_ = std::move(watch); }
  void run();
  void add_to_leaves();

  /// For a node's rule: adds a gradient of one of its inputs. Empty means zero.
  void send(const Edge& edge, Variable&& gradient);
  /// Whether a gradient sent there has an effect.
  bool wants(const Edge& edge) const { return captures_.empty() || needed_.contains(&*edge.node); }

 private:
  struct Pending {
    uint64_t number;
    Node* node;
    bool operator<(const Pending& other) const { return number < other.number; }
  };

  void enqueue(Node& node);
  void find_needed();
  void run_rule(Node& node);
  void run_watched(Node& node);
  void take_captures(Node& node, std::span<Variable> gradients);

  struct LeafSum {
    Leaf* leaf;
    Variable sum;
  };
  /// The place of a leaf in leaves_, or leaves_.size().
  size_t find(Leaf& leaf) const;
  void append(Leaf& leaf, Variable&& sum);

  struct Root {
    Variable root;  // keeps every node of the pass alive
    Variable seed;
  };

  std::vector<Root> roots_;
  const BackwardOptions options_;
  std::vector<Pending> heap_;
  std::vector<LeafSum> leaves_;
  std::unordered_map<const Leaf*, size_t> places_;
  std::vector<std::pair<Edge, Variable*>> captures_;
  std::unordered_map<const Node*, bool> needed_;  // with captures: and whether its rule is to run
  Watch watch_;
  std::vector<Variable>* sent_ = nullptr;  // where a watched rule's gradients go at first
};

}  // namespace tapegrad
