// StepCall: a kernel call of a captured step on the CPU, with the op that made it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/internal/call_recorder.h"
#include "core/base/storage.h"
#include "core/dispatch/recorded_call.h"

namespace tapegrad {

struct StepCall {
  std::unique_ptr<RecordedCall> call;
  CalledOp op;
  size_t number;             // in the order of the recording
  bool is_repeated = false;  // whether the call is made again (repetition_plan.h)
  bool is_read = false;      // whether it compares a value by which the step has decided
  bool is_lasting = false;   // whether it writes to memory that exists before the step

  // Findings of the first run. A recording cannot provide them, because kernels choose packed
  // layouts (core/base/storage.h) when they run.
  bool takes_packed = false;                       // whether it reads packed values
  std::vector<const TensorStorage*> packed = {};   // storages that were packed before the call
  std::vector<const TensorStorage*> unpacks = {};  // storages that the call unpacked
};

/// Returns the name and the line of an op, as in ", by mean at train.cpp:12".
std::string text_of(const CalledOp& op);

/// Calls visit(tensor, is_written, index of the argument) for the operands of a call.
template <typename Visit>
void each_argument(RecordedCall& call, const Visit& visit) {
  struct Visitor final : ArgumentVisitor {
    explicit Visitor(const Visit& visit) : visit(visit) {}
    void on_argument(int number) override { argument = number; }
    void on_tensor(Tensor& x, bool is_written) override { visit(x, is_written, argument); }
    const Visit& visit;
    int argument = 0;
  } visitor(visit);
  call.visit(visitor);
}
/// Calls visit(tensor, is_written) for the operands of a call.
template <typename Visit>
void each_tensor(RecordedCall& call, const Visit& visit) {
  each_argument(call, [&](Tensor& x, bool is_written, int) { visit(x, is_written); });
}

}  // namespace tapegrad
