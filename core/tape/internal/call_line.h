// For ops composed of others: what they record belongs to the line that called them, so that errors
// point at the user's source although the body is written with plain operators.
//
//   Variable softmin(const Variable& x, int dim, Where where) {
//     const CallLine line(where);
//     return softmax(-x, dim);
//   }
#pragma once

#include "core/tape/autocast.h"
#include "core/tape/node.h"

namespace tapegrad {

/// The outermost one that lives on this thread counts; within a rule, the rule's own line does.
class CallLine {
 public:
  explicit CallLine(Where where);
  CallLine(const CallLine&) = delete;
  CallLine& operator=(const CallLine&) = delete;
  ~CallLine();

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
  bool is_outermost_;
  detail::AutocastOff as_called_;  // the op that was called is what Autocast casts for
};

/// For ops that check their arguments before they run: errors get this line. Records nothing, so
/// that an op of one node stays one. The outermost counts.
class ErrorLine {
 public:
  explicit ErrorLine(Where where);
  ErrorLine(const ErrorLine&) = delete;
  ErrorLine& operator=(const ErrorLine&) = delete;
  ~ErrorLine();

 private:
  Where where_;
  bool is_outermost_;
};

/// Whether running_node() stands for an op composed of others, not for a rule. A leaf never runs,
/// and a Caller has no number, as a leaf.
inline bool is_call_line(const Node& running) { return running.is_leaf(); }

}  // namespace tapegrad
