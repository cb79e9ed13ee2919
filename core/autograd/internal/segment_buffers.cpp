#include "core/autograd/internal/segment_buffers.h"

#include <algorithm>

namespace tapegrad {

Tensor Scratch::take(size_t thread, size_t number, int64_t bytes) {
  constexpr int64_t kStep = 4096;  // so that buffers of similar sizes are one
  buffers_.resize(std::max(buffers_.size(), thread + 1));
  std::vector<Tensor>& own = buffers_[thread];
  own.resize(std::max(own.size(), number + 1));
  Tensor& buffer = own[number];
  if (!buffer || buffer.numel() < bytes)
    buffer = Tensor::empty({(bytes + kStep - 1) / kStep * kStep}, u8);
  return buffer;
}

Buffers::Buffers(const std::vector<StepCall>& calls, const StepGroup& group,
                 const std::function<bool(const TensorStorage&)>& is_inner) {
  std::unordered_map<const TensorStorage*, size_t> last;  // calls of the group
  for (size_t i = 0; i < group.calls.size(); ++i)
    each_tensor(*calls[group.calls[i]].call, [&](Tensor& x, bool) {
      if (is_inner(x.storage())) last[&x.storage()] = i;
    });
  std::vector<size_t> free;
  for (size_t i = 0; i < group.calls.size(); ++i) {
    std::vector<const TensorStorage*> ending;
    RecordedCall& call = *calls[group.calls[i]].call;
    const CallRows rows = rows_of(calls[group.calls[i]]);
    size_t next = 0;
    each_tensor(call, [&](Tensor& x, bool) {
      const RowOperand& operand = rows.operands[next++];
      const TensorStorage* storage = &x.storage();
      const auto end = last.find(storage);
      if (end == last.end()) return;
      if (!number_.contains(storage)) {
        if (free.empty()) {
          free.push_back(count());
          widths_.push_back(0);
        }
        number_[storage] = free.back();
        free.pop_back();
      }
      int64_t& width = widths_[number_[storage]];
      width = std::max(width, operand.span / group.rows * size_of(x.dtype()));
      if (end->second == i && std::ranges::find(ending, storage) == ending.end())
        ending.push_back(storage);
    });
    for (const TensorStorage* storage : ending) free.push_back(number_.at(storage));
  }
}

int64_t Buffers::bytes() const {
  int64_t bytes = 0;
  for (const auto& [storage, number] : number_) bytes += int64_t(storage->bytes());
  return bytes;
}

}  // namespace tapegrad
