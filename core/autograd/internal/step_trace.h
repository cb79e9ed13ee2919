// StepTrace: the kernel calls of a step that runs as usual. The next step is recorded; if it passes
// other numbers to its kernels, or copies other values from the host, then a repetition would be
// wrong. The calls of the forward and backward pass are compared, in their order, until the step
// clips gradients or an optimizer makes a step, which call other kernels while they are recorded.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/autograd/internal/step_call.h"
#include "core/base/tensor.h"

namespace tapegrad {

/// Values that a step copies from the host into a tensor.
struct HostCopy {
  std::vector<std::byte> bytes;
  CalledOp op = {};
};

/// Copies values to a tensor that no recorder manages.
Tensor ordinary_tensor(std::span<const std::byte> bytes, const Shape& shape, DType dtype);

class StepTrace final : public CallRecorder {
 public:
  /// Returns how the calls of a recorded step differ, as "passes another number", with the op and
  /// its line; empty if no difference is found. `is_known` tells whether a tensor exists before the
  /// step and should be the same one in each step.
  std::string difference(const std::vector<StepCall>& calls, const std::vector<HostCopy>& copies,
                         const std::function<bool(const Tensor& x)>& is_known) const;

  bool is_capturing() const override { return false; }
  bool on_call(std::unique_ptr<RecordedCall> call) override;
  RecordedCall* call_to_update(const KernelTable&) override { return nullptr; }
  void on_access(const TensorStorage&) override {}
  Tensor read(const Tensor&) override { return {}; }
  Tensor copy_from_host(std::span<const std::byte> bytes, const Shape& shape, DType dtype) override;
  size_t position() const override { return calls_.size(); }
  void forget(size_t position) override { calls_.resize(position); }
  void begin_op(const CalledOp& op) override { ops_.push_back(op); }
  void end_op() override { ops_.pop_back(); }

 private:
  struct Operand {
    const TensorStorage* storage;
    StridedLayout layout;
    DType dtype;
  };
  struct Call {
    std::unique_ptr<RecordedCall> call;  // with empty tensors
    std::vector<Operand> operands;
    CalledOp op = {};
  };

  const char* compare(const Call& before, const StepCall& now,
                      const std::function<bool(const Tensor& x)>& is_known) const;

  std::vector<Call> calls_;
  std::vector<HostCopy> copies_;
  std::vector<CalledOp> ops_;  // the ops that run, outermost first
};

}  // namespace tapegrad
