// What the kernels of attention work on: matrices of many heads, and which keys a query sees.
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

/// A matrix of one head; an element of a row lies behind the one before.
template <typename T>
struct Rows {
  const T* data;
  int64_t count, step;  // rows, and from one to the next
  int columns;
  bool in_eights;  // every row is whole aligned Packs of kEight elements
};

/// The matrix of a head where matrices lie one after another in a tensor of their own: those of y
/// and of the gradients that are written.
template <typename T>
__device__ Rows<T> dense(const T* data, int64_t head, int64_t count, int columns) {
  return {data + head * count * columns, count, columns, columns, columns % kEight == 0};
}

/// How the matrices of all heads lie.
template <typename T>
struct Matrices {
  const T* data;
  int64_t step;
  int64_t steps[kMostInFront];
  bool in_eights;
};

enum class Sight : int { kAll, kCausal, kBool, kAdded };

/// Which keys a query sees, or what is added to their scores.
struct Mask {
  Sight sight;
  const void* data;
  int64_t row, column;
  int64_t steps[kMostInFront];
};

/// Shares whose words lie below a number are dropped, the others are scaled.
struct Dropped {
  uint32_t below = 0;
  double scale = 1;
  DrawState draw;
};

template <typename T>
struct Problem {
  int64_t heads, queries, keys;
  int features, width;  // columns of q and k, and of v
  int in_front;         // dimensions; their product is heads
  int64_t sizes[kMostInFront];
  double scale;
  Matrices<T> q, k, v, dy;  // dy: of the gradient only
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

  /// Whether dropout leaves what lies at such a place of the scores; `counter` and `words` are
  /// those of the place before.
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

  /// Keys that one of the queries [.., end) may see lie before this one.
  __device__ int64_t last_key(int64_t end) const {
    return mask.sight == Sight::kCausal ? std::min(end, keys) : keys;
  }
  /// The first query that may see one of the keys [key, ..).
  __device__ int64_t first_query(int64_t key) const {
    return mask.sight == Sight::kCausal ? key : 0;
  }
  /// The score as the softmax takes it, -inf where there is none; `at` is where the head's mask
  /// begins.
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

/// Itself, or a copy where elements of a row do not lie side by side.
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

/// Of operands that lie by_rows(); they have to live until the kernels are launched.
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
