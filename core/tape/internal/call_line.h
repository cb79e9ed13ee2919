// For ops that are composed of others: what such an op records belongs to the line that called it,
// so that errors point at the user's source although the body is written with plain operators.
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

/// Makes a line the place of all that the thread records, unless an outer CallLine or a rule of a
/// backward pass has done so.
class CallLine {
 public:
  explicit CallLine(Where where)
      : caller_(where),
        running_(detail::context.running != nullptr ? detail::context.running : &caller_) {}

 private:
  struct Caller final : Node {
    explicit Caller(Where where) : Node(where) {}
    std::string_view name() const override { return "call"; }
    std::span<const Edge> edges() const override { return {}; }
    std::span<Variable> gradients() override { return {}; }
    void run(BackwardPass&) override {}
    void free_saved() override {}
  };

  Caller caller_;
  detail::Set<&detail::Context::running> running_;
  detail::AutocastOff as_called_;  // Autocast has cast the operands of the op that was called
};

/// Gives errors a line in ops that check their arguments before they run. Records nothing, so that
/// an op of one node stays one. The outermost ErrorLine counts.
class ErrorLine {
 public:
  explicit ErrorLine(Where where)
      : where_(where),
        line_(detail::context.error_line != nullptr ? detail::context.error_line : &where_) {}

 private:
  Where where_;
  detail::Set<&detail::Context::error_line> line_;
};

/// Whether a running node stands for a composed op, not for a rule. A leaf never runs, and the node
/// of a CallLine has no number, as a leaf.
inline bool is_call_line(const Node& running) { return running.is_leaf(); }

}  // namespace tapegrad
