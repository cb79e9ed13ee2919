// Many tensors in one launch: cut into pieces that the blocks share.
#pragma once

#include <algorithm>
#include <span>

#include "backends/cuda/device/launch.cuh"
#include "core/base/host_device.h"

namespace tapegrad::backends::cuda {

inline constexpr size_t kMostOfABatch = 48;  // as arguments of a kernel may have 4 KB
inline constexpr int64_t kPiece = 2048;  // elements of a tensor that a block goes through at a time

/// Elements [first, end) of a tensor.
struct Piece {
  int64_t first, end;
};

/// Item is where a tensor lies, and what belongs to it.
template <typename Item>
struct Batch {
  int64_t count;
  Item items[kMostOfABatch];
  int64_t numel[kMostOfABatch];
  int64_t ends[kMostOfABatch];  // pieces of a tensor and of all before it

  void add(const Item& item, int64_t size) {
    items[count] = item;
    numel[count] = size;
    ends[count] = pieces() + (size + kPiece - 1) / kPiece;
    ++count;
  }
  TG_HD int64_t pieces() const { return count > 0 ? ends[count - 1] : 0; }
  /// Of all pieces, in order; k becomes the number of its tensor, from that of one before.
  __device__ Piece piece(int64_t number, int& k) const {
    while (ends[k] <= number) ++k;
    const int64_t first = (number - (k > 0 ? ends[k - 1] : 0)) * kPiece;
    return {first, std::min<int64_t>(first + kPiece, numel[k])};
  }
};

/// run(span of as many as a batch takes) for all.
template <typename T, typename Run>
void for_each_batch(std::span<const T> all, const Run& run) {
  while (!all.empty()) {
    const size_t count = std::min(all.size(), kMostOfABatch);
    run(all.first(count));
    all = all.subspan(count);
  }
}

}  // namespace tapegrad::backends::cuda
