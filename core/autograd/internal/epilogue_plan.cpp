#include "core/autograd/internal/epilogue_plan.h"

#include <algorithm>
#include <unordered_map>

namespace tapegrad {
namespace {

/// The tensors of an elementwise call with one operand. No copies: the number of references to a
/// storage shows whether only calls refer to it.
struct OneOperand {
  const Tensor* operand = nullptr;
  const Tensor* result = nullptr;
};

OneOperand one_operand(RecordedCall& call) {
  if (call.parts() != Parts::kElements || call.kernel() == nullptr) return {};
  OneOperand found;
  int tensors = 0;
  each_tensor(call, [&](Tensor& x, bool is_written) {
    ++tensors;
    (is_written ? found.result : found.operand) = &x;
  });
  return tensors == 2 && found.operand && found.result ? found : OneOperand();
}

/// Returns the last tensor that the call writes, or null.
const Tensor* last_result(RecordedCall& call) {
  const Tensor* result = nullptr;
  each_tensor(call, [&](Tensor& x, bool is_written) {
    if (is_written) result = &x;
  });
  return result;
}

bool has_same_elements(const Tensor& a, const Tensor& b) {
  return a.is_contiguous() && b.is_contiguous() && a.numel() == b.numel() &&
         a.layout().offset == b.layout().offset && a.dtype() == b.dtype();
}

class Absorber {
 public:
  Absorber(std::vector<StepCall>& calls, const std::vector<StepGroup>& groups,
           const std::function<bool(const TensorStorage&)>& is_own)
      : calls_(calls), is_own_(is_own) {
    for (const StepGroup& group : groups)
      for (const size_t number : group.calls)
        each_tensor(*calls[number].call, [&](Tensor& x, bool) {
          std::vector<size_t>& users = users_[&x.storage()];
          if (users.empty() || users.back() != number) users.push_back(number);
        });
  }

  /// Returns the call that can also compute the activation; the number of calls if there is none.
  size_t absorb(size_t number, const std::function<bool(size_t)>& is_candidate) {
    const auto [operand, result] = one_operand(*calls_[number].call);
    if (operand == nullptr) return calls_.size();
    const Tensor &z = *operand, &y = *result;
    const std::vector<size_t>& users = users_[&z.storage()];
    const auto self = std::ranges::find(users, number);
    if (self == users.begin() || !is_candidate(*(self - 1))) return calls_.size();
    const size_t maker = *(self - 1);
    RecordedCall& call = *calls_[maker].call;
    const Tensor* made = last_result(call);
    if (made == nullptr || !made->shares_storage(z)) return calls_.size();
    if (!has_same_elements(*made, z) || !has_same_elements(z, y)) return calls_.size();
    if (!y.shares_storage(z) && !replaces(y, z, number)) return calls_.size();
    TensorStorage& before = made->storage();
    if (!call.absorb(*calls_[number].call->kernel(), y.with_layout(made->layout())))
      return calls_.size();
    before.lend(-1);
    y.storage().lend(1);
    return maker;
  }

 private:
  /// Returns whether a call may write y instead of z: only that call and the activation `number`
  /// use z, and no call uses y before the activation.
  bool replaces(const Tensor& y, const Tensor& z, size_t number) {
    return is_own_(z.storage()) && users_[&z.storage()].size() == 2 &&
           users_[&y.storage()].front() == number;
  }

  std::vector<StepCall>& calls_;
  const std::function<bool(const TensorStorage&)>& is_own_;
  std::unordered_map<const TensorStorage*, std::vector<size_t>> users_;  // in the order of the run
};

}  // namespace

std::vector<AbsorbedCall> absorb_activations(
    std::vector<StepCall>& calls, std::vector<StepGroup>& groups,
    const std::function<bool(const TensorStorage&)>& is_own) {
  std::vector<const StepGroup*> group_of(calls.size());
  for (const StepGroup& group : groups)
    for (const size_t number : group.calls) group_of[number] = &group;
  Absorber absorber(calls, groups, is_own);
  std::vector<AbsorbedCall> absorbed;
  for (const StepGroup& group : groups)
    for (const size_t number : group.calls) {
      const size_t maker = absorber.absorb(number, [&](size_t other) {
        const StepGroup* before = group_of[other];
        return before == &group || (before->calls.size() == 1 && group.calls.size() == 1);
      });
      if (maker < calls.size()) absorbed.push_back({maker, number});
    }
  const auto is_absorbed = [&](size_t number) {
    return std::ranges::find(absorbed, number, &AbsorbedCall::activation) != absorbed.end();
  };
  for (StepGroup& group : groups) std::erase_if(group.calls, is_absorbed);
  std::erase_if(groups, [](const StepGroup& group) { return group.calls.empty(); });
  return absorbed;
}

}  // namespace tapegrad
