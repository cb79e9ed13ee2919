// TapeNode: one op on the tape. It holds edges to the nodes that made its inputs, and the saved
// tensors of its rule, but never the inputs themselves.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/context.h"
#include "core/base/device.h"
#include "core/base/dtype.h"
#include "core/base/free_list.h"
#include "core/base/ref.h"
#include "core/base/shape.h"
#include "core/base/where.h"
#include "core/tape/hooks.h"

namespace tapegrad {

class BackwardPass;
class TapeNode;
class SavedValue;
class SavedVisitor;
class Tensor;
class Variable;
enum class Activation : int;  // ops/epilogue.h

/// Function that receives a gradient and may return a replacement.
using GradientHook = std::function<Variable(const Variable& gradient)>;
/// Function that receives the gradients passed to a node's rule, one per output (empty means zero),
/// and may replace the gradients.
using NodePreHook = std::function<void(std::span<Variable> grad_outputs)>;
/// Function that receives the gradients that a node's rule returned, one per input (empty means
/// zero or not needed), and may replace these gradients.
using NodeHook = std::function<void(std::span<Variable> grad_inputs,  //
                                    std::span<const Variable> grad_outputs)>;
/// Function that receives the gradient of a leaf after a backward pass has accumulated into it.
using AccumulateHook = std::function<void(const Variable& gradient)>;

/// Destination of a gradient: one output of a node. Empty for a constant.
struct TapeEdge {
  RefPtr<TapeNode> node;
  uint32_t output = 0;

  explicit operator bool() const { return bool(node); }
};

/// Properties that a value and its gradients have in common.
struct ValueType {
  Shape shape;
  DType dtype{};
  Device device;
};

class TapeNode : public Counted, public Pooled {
 public:
  virtual ~TapeNode();

  virtual std::string_view name() const = 0;
  virtual std::span<const TapeEdge> edges() const = 0;
  virtual std::span<Variable> gradients() = 0;  // one slot per output, filled during a pass
  virtual void run(BackwardPass& pass) = 0;  // takes the gradients of the outputs and sends those
                                             // of the inputs
  virtual void free_saved() = 0;  // releases saved tensors; run() then throws AutogradError
  virtual void visit_saved(SavedVisitor&) const {}
  virtual bool is_freed() const { return false; }
  /// Returns whether the op has kernel_backward (core/tape/op.h).
  virtual bool has_kernel_backward() const { return false; }

  /// Makes an activation of this node's only result the epilogue of the node; y is the new result.
  /// Returns false, with nothing changed, if the op has no rule for the activation, or if the node
  /// has hooks or more than one owner.
  bool absorb(Activation activation, const Tensor& y) {
    return has_one_owner() && !hooks_ && take_epilogue(activation, y);
  }
  /// Returns the value at which the gradient of an activation is taken (Epilogue::at). Null unless
  /// this node belongs to an activation.
  virtual const SavedValue* epilogue_at(Activation&) const { return nullptr; }
  /// Returns whether the node only repeats the elements of its operand (expand).
  virtual bool repeats_operand() const { return false; }

  /// Returns the type of an output. A gradient of another type causes an AutogradError.
  const ValueType& output_type(uint32_t output) const { return output_types_[output]; }

  uint64_t number() const { return number_; }
  bool is_leaf() const { return number_ == 0; }
  Where where() const { return where_; }
  const std::string* scope() const {
    return scope_;  // name of the module that recorded the node; null outside of all modules
  }

  /// Calls the hook with each complete gradient of an output. Hooks of outputs run before the
  /// prehooks.
  HookHandle register_hook(uint32_t output, GradientHook hook);
  HookHandle register_prehook(NodePreHook hook);
  HookHandle register_hook(NodeHook hook);

  /// Destroys a node without recursion. A node that is released while another is being destroyed is
  /// added to a list.
  static void destroy(TapeNode* node);

  /// Returns the number of live nodes, including leaves, made by this thread, minus those it
  /// destroyed, plus the balance of ended threads. Zero if nothing leaks.
  static int64_t live();

 protected:
  TapeNode();  // makes a leaf
  explicit TapeNode(Where where);
  /// Sets the node's number to 1 + max(this thread's counter, numbers of its inputs), so a node is
  /// younger than its inputs. Numbers therefore sort any graph topologically, even one recorded by
  /// several threads.
  void number_after(std::span<const TapeEdge> inputs);

  const ValueType* output_types_ = nullptr;  // one per output; owned by the derived class

 private:
  virtual bool take_epilogue(Activation, const Tensor&) { return false; }

  friend class BackwardPass;
  friend class Leaf;
  struct Hooks;
  Hooks& hooks();
  /// Runs the hooks and prehooks. Throws AutogradError if a hook returns a gradient of another
  /// type.
  void run_before_hooks(std::span<Variable> gradients) const;
  void run_after_hooks(std::span<Variable> outgoing, std::span<const Variable> incoming) const;

  uint64_t number_ = 0;
  std::atomic<BackwardPass*> pass_{nullptr};  // the pass whose gradients are in the slots
  TapeNode* next_dying_ = nullptr;
  std::unique_ptr<Hooks> hooks_;
  Where where_;
  const std::string* scope_;
};

/// Returns a description such as "mul, recorded at model.cpp:12" or "the leaf fc1.weight".
std::string describe(const TapeNode& node);

/// Returns the node whose rule is running on this thread, or null.
inline const TapeNode* running_node() { return detail::context.running; }

}  // namespace tapegrad
