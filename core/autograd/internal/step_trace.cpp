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

/// Returns whether the call belongs to an op that only moves values. Such ops choose kernels, or
/// none, by the layouts of their operands, which a recording does not know. A sum of gradients
/// copies its first gradient if such an op returned it as a part of another tensor.
bool moves(const CalledOp& op, const RecordedCall& call) {
  constexpr std::string_view kNames[] = {"cat",   "pad",   "permute",   "reshape", "select",
                                         "slice", "split", "transpose", "unbind",  "view"};
  return std::ranges::find(kNames, op.name) != std::end(kNames) ||
         (op.name == "add_gradients" && call.kernel() == &kernels::copy);
}

/// Returns whether the layouts are those of one part of a tensor, as far as they can be compared:
/// `may_differ` says that their strides, or their shapes, may differ between a recording and the
/// step before.
bool is_same_part(const StridedLayout& a, const StridedLayout& b, bool may_differ) {
  if (a.shape == b.shape && a.strides == b.strides) return a.offset == b.offset;
  return may_differ;
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

/// Returns how two calls differ; null if no difference is found.
const char* StepTrace::compare(const Call& before, const StepCall& now,
                               const std::function<bool(const Tensor& x)>& is_known) const {
  if (!now.call->has_numbers_of(*before.call)) return "passes another number";
  bool has_same_layouts = true, has_same_tensors = true;
  size_t next = 0;
  each_tensor(*now.call, [&](Tensor& x, bool) {
    if (next == before.operands.size()) return;
    const Operand& operand = before.operands[next++];
    const bool may_differ =
        moves(now.op, *now.call) || (operand.layout.shape == x.shape() && !is_known(x));
    has_same_layouts &=
        operand.dtype == x.dtype() && is_same_part(operand.layout, x.layout(), may_differ);
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
  size_t i = 0, next = 0;
  while (i < calls.size()) {
    const StepCall& step = calls[i];
    const bool is_skipped = step.call->kernel() == nullptr || step.is_repeated;
    if (is_skipped || (next == calls_.size() && moves(step.op, *step.call))) {
      ++i;
      continue;
    }
    if (next == calls_.size())
      return is_of_pass(step.op) ? std::string(kOtherKernels) + text_of(step.op) : "";
    const Call& before = calls_[next];
    const std::string_view name = step.op.name;
    const bool is_same_op = name == before.op.name;
    const bool is_moving = moves(step.op, *step.call) || moves(before.op, *before.call);
    if (before.call->kernel() != step.call->kernel() || (is_moving && !is_same_op)) {
      if (!is_of_pass(step.op) || !is_of_pass(before.op)) return {};
      if (is_same_op) {  // the op chooses kernels by layouts
        while (next < calls_.size() && calls_[next].op.name == name) ++next;
        while (i < calls.size() && calls[i].op.name == name) ++i;
      } else if (moves(step.op, *step.call)) {
        ++i;
      } else if (moves(before.op, *before.call)) {
        ++next;
      } else {
        return std::string(kOtherKernels) + text_of(step.op);
      }
      continue;
    }
    if (const char* what = compare(before, step, is_known))
      return std::string(what) + " to " + std::string(step.call->name()) + text_of(user(calls, i));
    ++i, ++next;
  }
  while (next < calls_.size() && moves(calls_[next].op, *calls_[next].call)) ++next;
  return next < calls_.size() && is_of_pass(calls_[next].op)
             ? std::string(kOtherKernels) + text_of(calls_[next].op)
             : "";
}

}  // namespace tapegrad
