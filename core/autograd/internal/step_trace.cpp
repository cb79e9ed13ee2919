#include "core/autograd/internal/step_trace.h"

#include <algorithm>
#include <utility>

#include "core/autograd/internal/segment_rows.h"
#include "core/dispatch/dispatcher.h"
#include "core/dispatch/kernels.h"
#include "core/dispatch/span.h"

namespace tapegrad {
namespace {

constexpr std::string_view kOtherKernels = "calls other kernels";

/// Returns whether the call belongs to an op of the forward or backward pass. Optimizers and
/// gradient clipping call other kernels while they are recorded.
bool is_of_pass(const CalledOp& op) { return !op.name.empty() && op.pass != Pass::kUpdate; }

bool is_same(const StridedLayout& a, const StridedLayout& b) {
  return a.shape == b.shape && a.strides == b.strides && a.offset == b.offset;
}

}  // namespace

/// Runs the kernel itself, so that kernels that are composed of others count as one call.
bool StepTrace::on_call(std::unique_ptr<RecordedCall> call) {
  if (call->returns_to_host()) return false;
  const detail::UseRecorder off(nullptr);
  call->run();
  if (call->kernel() == nullptr) return true;  // a check, which may come earlier in a recording
  Call made;
  each_tensor(*call, [&](Tensor& x, bool) {
    made.operands.push_back({&x.storage(), x.layout(), x.dtype()});
    x = Tensor();
  });
  made.call = std::move(call);
  if (!ops_.empty()) made.op = ops_.back();
  calls_.push_back(std::move(made));
  return true;
}

Tensor StepTrace::copy_from_host(std::span<const std::byte> bytes, const Shape& shape,
                                 DType dtype) {
  copies_.push_back({{bytes.begin(), bytes.end()}});
  const Tensor values = ordinary_tensor(bytes, shape, dtype);
  Tensor copy = values.empty_like();
  kernels::copy(values, copy);  // a call, as in a recording
  return copy;
}

Tensor ordinary_tensor(std::span<const std::byte> bytes, const Shape& shape, DType dtype) {
  const detail::UseRecorder off(nullptr);
  const Tensor made = Tensor::empty(shape, dtype);
  if (!bytes.empty()) std::ranges::copy(bytes, made.storage().data());
  return made;
}

/// Returns what the step does differently; null if it does the same.
const char* StepTrace::compare(const Call& before, const StepCall& now,
                               const std::function<bool(const Tensor& x)>& is_known) const {
  if (!now.call->has_numbers_of(*before.call)) return "passes another number";
  bool has_same_layouts = true, has_same_tensors = true;
  size_t next = 0;
  each_tensor(*now.call, [&](Tensor& x, bool) {
    if (next == before.operands.size()) return;
    const Operand& operand = before.operands[next++];
    has_same_layouts &= operand.dtype == x.dtype() && is_same(operand.layout, x.layout());
    has_same_tensors &= operand.storage == &x.storage() || !is_known(x);
  });
  if (next != before.operands.size()) return nullptr;
  if (!has_same_layouts) return "passes a tensor of another shape, or another part of a tensor,";
  return has_same_tensors ? nullptr : "passes another tensor";
}

/// Returns the op of a call, or the first op that uses its result if the call belongs to none, as
/// for a number that becomes a tensor.
static CalledOp user(const std::vector<StepCall>& calls, size_t number) {
  const Tensor result = result_of(*calls[number].call);
  for (size_t i = number; i < calls.size(); ++i) {
    bool uses = i == number;
    each_tensor(*calls[i].call,
                [&](Tensor& x, bool) { uses |= result && x.shares_storage(result); });
    if (uses && calls[i].op.where.line() != 0) return calls[i].op;
  }
  return calls[number].op;
}

std::string StepTrace::difference(const std::vector<StepCall>& calls,
                                  const std::vector<HostCopy>& copies,
                                  const std::function<bool(const Tensor& x)>& is_known) const {
  for (size_t i = 0; i < copies.size(); ++i)
    if (i == copies_.size() || copies[i].bytes != copies_[i].bytes)
      return "copies other values from the host" + text_of(copies[i].op);
  size_t next = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    const StepCall& step = calls[i];
    if (step.call->kernel() == nullptr || step.is_repeated) continue;
    if (next == calls_.size())
      return is_of_pass(step.op) ? std::string(kOtherKernels) + text_of(step.op) : "";
    const Call& before = calls_[next];
    if (before.call->kernel() != step.call->kernel()) {
      if (!is_of_pass(step.op) || !is_of_pass(before.op)) return {};
      if (step.op.name != before.op.name) return std::string(kOtherKernels) + text_of(step.op);
      // The op chooses kernels by layouts, which a recording does not know.
      const std::string_view name = step.op.name;
      while (next < calls_.size() && calls_[next].op.name == name) ++next;
      while (i + 1 < calls.size() && calls[i + 1].op.name == name) ++i;
      continue;
    }
    ++next;
    if (const char* what = compare(before, step, is_known))
      return std::string(what) + " to " + std::string(step.call->name()) + text_of(user(calls, i));
  }
  return next < calls_.size() && is_of_pass(calls_[next].op)
             ? std::string(kOtherKernels) + text_of(calls_[next].op)
             : "";
}

}  // namespace tapegrad
