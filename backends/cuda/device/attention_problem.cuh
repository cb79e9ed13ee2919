// Operands of the attention kernels: the matrices of all heads, and the mask.
#pragma once

#include <algorithm>
#include <array>
#include <limits>

#include "backends/cuda/device/draw_base.cuh"
#include "backends/cuda/device/numeric.cuh"
#include "backends/cuda/layout/operands.h"
#include "backends/cuda/runtime/address.h"
#include "backends/formulas_random.h"
#include "core/base/tensor.h"
#include "ops/internal/attention_blocks.h"

namespace tapegrad::backends::cuda::attention {

inline constexpr int kMostInFront = kMaxRank - 2;  // dimensions before those of a matrix
inline constexpr int kEight = 8;                   // elements of a row that are loaded at once

/// The matrix of one head; rows are contiguous.
template <typename T>
struct Rows {
  const T* data;
  int64_t count, step;  // number of rows, and stride between rows
  int columns;
  bool in_eights;  // every row consists of aligned Packs of kEight elements
};

/// Returns the matrix of a head in a contiguous tensor: y and the gradients that are written.
template <typename T>
__device__ Rows<T> dense(const T* data, int64_t head, int64_t count, int columns) {
  return {data + head * count * columns, count, columns, columns, columns % kEight == 0};
}

/// Layout of the matrices of all heads.
template <typename T>
struct Matrices {
  const T* data;
  int64_t step;
  int64_t steps[kMostInFront];
  bool in_eights;
};

enum class Sight : int { kAll, kCausal, kBool, kAdded };

/// Mask of the scores: the keys that a query sees, or numbers that are added to the scores.
struct Mask {
  Sight sight;
  const void* data;
  int64_t row, column;
  int64_t steps[kMostInFront];
};

/// Dropout: weights whose random word is below `below` are dropped, the others are multiplied by
/// `scale`.
struct Dropped {
  uint32_t below = 0;
  double scale = 1;
  DrawState draw;
};

template <typename T>
struct Problem {
  int64_t heads, queries, keys;
  int features, width;  // columns of q and k; columns of v
  int in_front;         // leading dimensions; the product of their sizes is heads
  int64_t sizes[kMostInFront];
  double scale;
  Matrices<T> q, k, v, dy;  // dy: for the gradient only
  Mask mask;
  Dropped dropped;

  __device__ int64_t offset(const int64_t (&steps)[kMostInFront], int64_t head) const {
    int64_t at = 0;
    for (int d = in_front - 1; d >= 0; --d) {
      at += head % sizes[d] * steps[d];
      head /= sizes[d];
    }
    return at;
  }
  __device__ Rows<T> rows(const Matrices<T>& x, int64_t head, int64_t count, int columns) const {
    return {x.data + offset(x.steps, head), count, x.step, columns, x.in_eights};
  }
  __device__ Rows<T> queries_of(int64_t head) const { return rows(q, head, queries, features); }
  __device__ Rows<T> keys_of(int64_t head) const { return rows(k, head, keys, features); }
  __device__ Rows<T> values_of(int64_t head) const { return rows(v, head, keys, width); }
  __device__ Rows<T> gradients_of(int64_t head) const { return rows(dy, head, queries, width); }

  /// Returns whether dropout keeps the weight at a position. `counter` and `words` cache the random
  /// words of the previous position.
  __device__ bool keeps(int64_t head, int64_t query, int64_t key, const RandomState& state,
                        uint64_t& counter, std::array<uint32_t, 4>& words) const {
    const uint64_t place = uint64_t((head * queries + query) * keys + key);
    if (place / 4 != counter) {
      counter = place / 4;
      words = philox(state.seed, state.offset + counter);
    }
    const uint32_t lower = place % 2 == 0 ? words[0] : words[1];
    const uint32_t upper = place % 2 == 0 ? words[2] : words[3];
    return (place % 4 < 2 ? lower : upper) >= dropped.below;
  }

  /// Returns the end of the range of keys that the queries before `end` may see.
  __device__ int64_t last_key(int64_t end) const {
    return mask.sight == Sight::kCausal ? std::min(end, keys) : keys;
  }
  /// Returns the first query that may see one of the keys from `key` on.
  __device__ int64_t first_query(int64_t key) const {
    return mask.sight == Sight::kCausal ? key : 0;
  }
  /// Returns the masked score, -inf for a hidden or missing key. `at` is the offset of the head's
  /// mask.
  __device__ Compute<T> seen(Compute<T> score, int64_t query, int64_t key, int64_t at) const {
    constexpr Compute<T> kHidden = -std::numeric_limits<Compute<T>>::infinity();
    if (query >= queries || key >= keys) return kHidden;
    if (mask.sight == Sight::kAll) return score;
    if (mask.sight == Sight::kCausal) return key > query ? kHidden : score;
    at += query * mask.row + key * mask.column;
    if (mask.sight == Sight::kBool)
      return static_cast<const bool*>(mask.data)[at] ? score : kHidden;
    return score + widen(static_cast<const T*>(mask.data)[at]);
  }
};

/// Returns x, or a copy if its rows are not contiguous.
inline Tensor by_rows(const Tensor& x) {
  const int last = x.rank() - 1;
  return x.strides()[last] == 1 || x.shape()[last] == 1 ? x : x.clone();
}

template <typename T>
Matrices<T> matrices_of(const Tensor& x) {
  const int r = x.rank();
  Matrices<T> m{x.data<T>(), x.strides()[r - 2], {}, false};
  m.in_eights = reinterpret_cast<uintptr_t>(m.data) % (kEight * sizeof(T)) == 0 &&
                x.shape()[r - 1] % kEight == 0 && m.step % kEight == 0;
  for (int d = 0; d < r - 2; ++d) {
    m.steps[d] = x.strides()[d];
    m.in_eights = m.in_eights && m.steps[d] % kEight == 0;
  }
  return m;
}

inline Mask mask_of(const Tensor& mask, bool causal) {
  if (!mask) return {causal ? Sight::kCausal : Sight::kAll, nullptr, 0, 0, {}};
  const int r = mask.rank();
  Mask m{mask.dtype() == boolean ? Sight::kBool : Sight::kAdded,
         address_of(mask),
         mask.strides()[r - 2],
         mask.strides()[r - 1],
         {}};
  for (int d = 0; d < r - 2; ++d) m.steps[d] = mask.strides()[d];
  return m;
}

/// Describes operands returned by by_rows(), which must live until the kernels are launched.
template <typename T>
Problem<T> problem_of(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                      bool causal, double scale, const kernels::ShareDropout& dropout) {
  const int r = q.rank();
  Problem<T> p{};
  p.queries = q.shape()[r - 2];
  p.keys = k.shape()[r - 2];
  p.features = int(q.shape()[r - 1]);
  p.width = int(v.shape()[r - 1]);
  p.heads = q.numel() / (p.queries * p.features);
  p.in_front = r - 2;
  for (int d = 0; d < r - 2; ++d) p.sizes[d] = q.shape()[d];
  p.scale = scale;
  p.q = matrices_of<T>(q);
  p.k = matrices_of<T>(k);
  p.v = matrices_of<T>(v);
  p.mask = mask_of(mask, causal);
  if (dropout.p > 0)
    p.dropped = {formulas::drop_below(dropout.p), 1.0 / (1.0 - dropout.p),
                 DrawState(dropout.state)};
  return p;
}

}  // namespace tapegrad::backends::cuda::attention
