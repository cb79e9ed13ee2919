// Buffers of a segment of a captured step (segment.h): the values that have a buffer, and the
// memory.
#pragma once

#include <cstddef>
#include <functional>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "core/autograd/internal/segment_plan.h"

namespace tapegrad {

/// Memory of the threads. The segments of a step share it because they run one after another.
class Scratch {
 public:
  /// Returns the buffer with the number, of at least the given size in bytes.
  Tensor take(size_t thread, size_t number, int64_t bytes);

 private:
  std::vector<std::vector<Tensor>> buffers_;
};

/// Lifetimes of the values that only the segment uses. A buffer is free after the last call that
/// uses it.
class Buffers {
 public:
  /// `is_inner` returns whether only the segment uses a storage.
  Buffers(const std::vector<StepCall>& calls, const StepGroup& group,
          const std::function<bool(const TensorStorage&)>& is_inner);

  size_t count() const { return widths_.size(); }
  /// Returns the bytes of the widest row that the buffer holds.
  int64_t width(size_t number) const { return widths_[number]; }
  /// Returns the bytes of a row in all buffers.
  int64_t width() const { return std::accumulate(widths_.begin(), widths_.end(), int64_t(0)); }
  /// Returns the number of the storage's buffer, or count() if it has none.
  size_t of(const TensorStorage& storage) const {
    const auto found = number_.find(&storage);
    return found == number_.end() ? count() : found->second;
  }
  /// Returns the bytes of all values.
  int64_t bytes() const;

 private:
  std::unordered_map<const TensorStorage*, size_t> number_;
  std::vector<int64_t> widths_;
};

}  // namespace tapegrad
