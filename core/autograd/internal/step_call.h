// StepCall: a kernel call of a captured step on the CPU, with the op that made it.
#pragma once

#include <memory>
#include <string>

#include "core/base/internal/call_recorder.h"
#include "core/dispatch/recorded_call.h"

namespace tapegrad {

struct StepCall {
  std::unique_ptr<RecordedCall> call;
  CalledOp op;
};

/// Calls visit(tensor, is_written) for the operands of a call.
template <typename Visit>
void each_tensor(RecordedCall& call, const Visit& visit) {
  struct Visitor final : ArgumentVisitor {
    explicit Visitor(const Visit& visit) : visit(visit) {}
    void on_tensor(Tensor& x, bool is_written) override { visit(x, is_written); }
    const Visit& visit;
  } visitor(visit);
  call.visit(visitor);
}

}  // namespace tapegrad
