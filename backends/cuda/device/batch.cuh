// Many tensors in one launch: they are cut into pieces, which the blocks share.
#pragma once

#include <algorithm>
#include <span>

#include "backends/cuda/device/launch.cuh"
#include "core/base/host_device.h"

namespace tapegrad::backends::cuda {

inline constexpr size_t kMostOfABatch = 48;  // kernel arguments are limited to 4 KB
inline constexpr int64_t kPiece = 2048;      // elements that a block processes at a time

/// Elements [first, end) of a tensor.
struct Piece {
  int64_t first, end;
};

inline int64_t pieces_of(int64_t numel) { return (numel + kPiece - 1) / kPiece; }

/// Item holds the addresses of a tensor and its parameters.
template <typename Item>
struct Batch {
  int64_t count;
  Item items[kMostOfABatch];
  int64_t numel[kMostOfABatch];
  int64_t ends[kMostOfABatch];  // number of pieces of this tensor and all earlier ones

  void add(const Item& item, int64_t size) {
    items[count] = item;
    numel[count] = size;
    ends[count] = pieces() + pieces_of(size);
    ++count;
  }
  TG_HD int64_t pieces() const { return count > 0 ? ends[count - 1] : 0; }
  /// Piece `number`. k is increased from the tensor of an earlier piece to the tensor of this
  /// piece.
  __device__ Piece piece(int64_t number, int& k) const {
    while (ends[k] <= number) ++k;
    const int64_t first = (number - (k > 0 ? ends[k - 1] : 0)) * kPiece;
    return {first, std::min<int64_t>(first + kPiece, numel[k])};
  }
};

/// Calls run() with spans of `all`, each as long as a Batch allows.
template <typename T, typename Run>
void for_each_batch(std::span<const T> all, const Run& run) {
  while (!all.empty()) {
    const size_t count = std::min(all.size(), kMostOfABatch);
    run(all.first(count));
    all = all.subspan(count);
  }
}

}  // namespace tapegrad::backends::cuda
