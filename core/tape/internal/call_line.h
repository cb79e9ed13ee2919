// CallLine: gives the nodes that a composed op records the source location of the op's caller, so
// that errors name the user's line although the body uses plain operators.
//
//   Variable softmin(const Variable& x, int dim, Where where) {
//     const CallLine line(where);
//     return softmax(-x, dim);
//   }
#pragma once

#include "core/base/context.h"
#include "core/tape/autocast.h"
#include "core/tape/node.h"

namespace tapegrad {

/// Sets the location of all nodes that this thread records, unless an outer CallLine or a running
/// rule has set one.
class CallLine {
 public:
  explicit CallLine(Where where)
      : caller_(where),
        running_(detail::context.running != nullptr ? detail::context.running : &caller_) {}

 private:
  struct Caller final : TapeNode {
    explicit Caller(Where where) : TapeNode(where) {}
    std::string_view name() const override { return "call"; }
    std::span<const TapeEdge> edges() const override { return {}; }
    std::span<Variable> gradients() override { return {}; }
    void run(BackwardPass&) override {}
    void free_saved() override {}
  };

  Caller caller_;
  detail::Set<&detail::Context::running> running_;
  detail::AutocastOff as_called_;  // autocast applies to the composed op, not to its parts
};

/// Sets the location of errors, for ops that check their arguments before they run. Records
/// nothing, so an op of one node stays one node. The outermost ErrorLine is in effect.
class ErrorLine {
 public:
  explicit ErrorLine(Where where)
      : where_(where),
        line_(detail::context.error_line != nullptr ? detail::context.error_line : &where_) {}

 private:
  Where where_;
  detail::Set<&detail::Context::error_line> line_;
};

/// Returns whether a running node is a composed op rather than a rule. The node of a CallLine has
/// no number, like a leaf, and leaves never run.
inline bool is_call_line(const TapeNode& running) { return running.is_leaf(); }

}  // namespace tapegrad
