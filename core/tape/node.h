// Node: one op on the tape. It holds edges to the nodes that made its inputs and what its rule
// saved, never its inputs themselves.
#pragma once

#include <functional>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/context.h"
#include "core/base/free_list.h"
#include "core/base/ref.h"
#include "core/tape/hooks.h"

namespace tapegrad {

class BackwardPass;
class Node;
class SavedVisitor;
class Variable;

/// Where in the user's source an op was called. Ops take it as a defaulted last argument.
using Where = std::source_location;

/// Sees a gradient on its way, and may replace it by returning a value.
using GradientHook = std::function<Variable(const Variable& gradient)>;
/// Sees the gradients that a node's rule is about to be given, one an output (an empty one means
/// zero), and may replace them.
using NodePreHook = std::function<void(std::span<Variable> grad_outputs)>;
/// Sees what the rule made of them, one gradient an input (empty: zero, or not wanted), and may
/// replace it.
using NodeHook = std::function<void(std::span<Variable> grad_inputs,  //
                                    std::span<const Variable> grad_outputs)>;
/// Sees the gradient of a leaf after a backward pass has added to it.
using AccumulateHook = std::function<void(const Variable& gradient)>;

/// One output of a node: what a gradient is sent to. Empty for a constant.
struct Edge {
  Ref<Node> node;
  uint32_t output = 0;

  explicit operator bool() const { return bool(node); }
};

class Node : public Counted, public Pooled {
 public:
  virtual ~Node();

  virtual std::string_view name() const = 0;
  virtual std::span<const Edge> edges() const = 0;
  virtual std::span<Variable> gradients() = 0;  // one slot an output, filled during a pass
  virtual void run(BackwardPass& pass) = 0;     // takes the gradients and sends its inputs'
  virtual void free_saved() = 0;                // afterwards run() is an AutogradError
  virtual void visit_saved(SavedVisitor&) const {}
  virtual bool is_freed() const { return false; }

  uint64_t number() const { return number_; }
  bool is_leaf() const { return number_ == 0; }
  Where where() const { return where_; }
  const std::string* scope() const { return scope_; }  // the part of a model, or null

  /// Called with each complete gradient of an output, before the prehooks.
  HookHandle register_hook(uint32_t output, GradientHook hook);
  HookHandle register_prehook(NodePreHook hook);
  HookHandle register_hook(NodeHook hook);

  /// Destroys without recursion: a node that dies while another is dying waits in a list.
  static void destroy(Node* node);

  /// Nodes alive that this thread made, less those it destroyed, plus the balance of threads that
  /// have ended. Zero when nothing leaks; leaves count.
  static int64_t live();

 protected:
  Node();  // a leaf
  explicit Node(Where where);
  /// Every node is younger than its inputs: 1 + max(this thread's counter, the inputs' numbers).
  /// So the numbers sort any graph topologically, also one recorded by several threads.
  void number_after(std::span<const Edge> inputs);

 private:
  friend class BackwardPass;
  friend class Leaf;
  struct Hooks;
  Hooks& hooks();
  void run_before_hooks(std::span<Variable> gradients) const;

  uint64_t number_ = 0;
  std::atomic<BackwardPass*> pass_{nullptr};  // the pass whose gradients are in the slots
  Node* next_dying_ = nullptr;
  std::unique_ptr<Hooks> hooks_;
  Where where_;
  const std::string* scope_;
};

/// "mul, recorded at model.cpp:12"
std::string describe(const Node& node);

/// The node whose rule runs on this thread, or null.
inline const Node* running_node() { return detail::context.running; }

}  // namespace tapegrad
