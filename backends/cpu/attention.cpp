// Blockwise attention: processes a block of queries and a block of keys at a time, whose scores
// stay in the second-level cache. The softmax over blocks of keys is computed online: it keeps the
// largest score of a row so far and multiplies earlier sums by exp(old maximum - new maximum).
#include <algorithm>
#include <cmath>
#include <concepts>
#include <exception>
#include <limits>

#include <omp.h>

#include "backends/cpu/register.h"
#include "backends/cpu/tools/exponentials.h"
#include "backends/cpu/tools/matrices.h"
#include "backends/cpu/tools/optional.h"
#include "backends/cpu/tools/philox_lanes.h"
#include "backends/formulas_random.h"
#include "core/dispatch/implementations.h"
#include "core/dispatch/kernels.h"
#include "ops/internal/attention_blocks.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kBlockQueries = 128, kBlockKeys = 512;  // block sizes

struct AttentionSizes {
  int64_t batch, queries, keys, features, width;  // width: of the values

  AttentionSizes(const Tensor& q, const Tensor& v)
      : batch(q.numel() / (q.shape()[q.rank() - 2] * q.shape()[q.rank() - 1])),
        queries(q.shape()[q.rank() - 2]),
        keys(v.shape()[v.rank() - 2]),
        features(q.shape()[q.rank() - 1]),
        width(v.shape()[v.rank() - 1]) {}

  int64_t block() const { return std::min(kBlockQueries, queries) * std::min(kBlockKeys, keys); }
  int64_t shares() const { return batch * queries * keys; }
};

template <typename T>
Matrix<T> from_row(const Matrix<T>& x, int64_t i) {
  return {x.data + i * x.row, x.row, x.column};
}

/// Converts products to scores: applies scale and mask.
template <typename T>
class Scores {
 public:
  Scores(const Tensor& mask, bool causal, double scale)
      : mask_(mask), causal_(causal), scale_(T(scale)) {}

  /// Returns the end of the range of keys that the queries before `end` may see.
  int64_t last_key(int64_t end, int64_t keys) const { return causal_ ? std::min(end, keys) : keys; }

  /// scores [rows, keys] of matrix `head` of the batch, starting at query i and key j.
  void finish(int64_t head, int64_t i, int64_t j, int64_t rows, int64_t keys, T* scores) const {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    for (int64_t r = 0; r < rows; ++r, scores += keys) {
      for (int64_t c = 0; c < keys; ++c) scores[c] *= scale_;
      if (causal_)
        for (int64_t c = std::max<int64_t>(i + r + 1 - j, 0); c < keys; ++c) scores[c] = kHidden;
      if (!mask_) continue;
      const int64_t row = mask_.strides()[mask_.rank() - 2],
                    step = mask_.strides()[mask_.rank() - 1];
      const int64_t at = batch_offset(mask_, head) + (i + r) * row + j * step;
      if (mask_.dtype() == boolean) {
        const bool* seen = mask_.data<bool>() + at;
        if (step == 1) {
          for (int64_t c = 0; c < keys; ++c) {
            const T score = scores[c];  // loaded in any case, so that the loop vectorises
            scores[c] = seen[c] ? score : kHidden;
          }
        } else {
          for (int64_t c = 0; c < keys; ++c) scores[c] = seen[c * step] ? scores[c] : kHidden;
        }
      } else {
        const T* added = mask_.data<T>() + at;
        for (int64_t c = 0; c < keys; ++c) scores[c] += added[c * step];
      }
    }
  }
  /// Returns whether the mask hides all keys from query i of matrix `head` of the batch, whose
  /// scores are all -infinity. Such a row gives 0. Without a mask, or with a bool mask that shows a
  /// key, the row gives NaN.
  bool hides_all(int64_t head, int64_t i, int64_t keys) const {
    if (!mask_) return false;
    if (mask_.dtype() != boolean) return true;
    const int64_t row = mask_.strides()[mask_.rank() - 2], step = mask_.strides()[mask_.rank() - 1];
    const bool* seen = mask_.data<bool>() + batch_offset(mask_, head) + i * row;
    for (int64_t c = 0; c < keys; ++c)
      if (seen[c * step]) return false;
    return true;
  }

 private:
  const Tensor& mask_;
  bool causal_;
  T scale_;
};

/// Applies dropout to attention weights, or to the gradients of dropped weights.
template <typename T>
class Dropout {
 public:
  Dropout(const kernels::ShareDropout& dropout, const AttentionSizes& sizes)
      : state_(dropout.state),
        p_(dropout.p),
        below_(formulas::drop_below(p_)),
        scale_(T(1.0 / (1.0 - p_))),
        queries_(sizes.queries),
        keys_(sizes.keys) {}

  explicit operator bool() const { return p_ > 0; }

  /// Applies dropout to the attention weights [rows, keys] of matrix `head`, from query i, key j
  /// on.
  void apply(int64_t head, int64_t i, int64_t j, int64_t rows, int64_t keys, T* shares) const {
    alignas(64) Words words;
    const T scale = scale_;
    const uint32_t below = below_;
    const int64_t runs = keys == keys_ ? 1 : rows, length = rows * keys / runs;
    for (int64_t r = 0; r < runs; ++r, shares += length) {
      const int64_t begin = (head * queries_ + i + r) * keys_ + j, end = begin + length;
      for (int64_t first = begin / 4 * 4; first < end; first += kWords) {
        draw_words(state_, first, words);
        T* at = shares + (first - begin);  // position of the first word
        for (int64_t w = std::max(begin - first, int64_t(0));
             w < std::min(end - first, int64_t(kWords)); ++w)
          at[w] = words[w] >= below ? at[w] * scale : T(0);
      }
    }
  }

 private:
  RandomState state_;
  double p_;
  uint32_t below_;
  T scale_;
  int64_t queries_, keys_;
};

/// With fewer attention weights, starting threads takes longer than the computation.
constexpr int64_t kFewestShares = 1 << 12;

/// Calls run(i, workspace) for i in [0, count), each with a workspace of `values` elements. Uses
/// many threads if `count` and `shares`, the total number of attention weights, are large enough.
/// Otherwise uses one thread, which leaves the other threads to the products within run().
template <typename T, typename Run>
void for_each_task(int64_t count, int64_t values, int64_t shares, const Run& run) {
  const int threads = omp_get_max_threads();
  const bool many = threads > 1 && count >= threads && shares >= kFewestShares;
  Tensor memory = Tensor::empty({values * (many ? threads : 1)}, kDTypeOf<T>);
  T* first = memory.data<T>();
  if (!many) {
    for (int64_t i = 0; i < count; ++i) run(i, first);
    return;
  }
  std::exception_ptr error;
#pragma omp parallel for schedule(dynamic)
  for (int64_t i = 0; i < count; ++i) try {
      run(i, first + omp_get_thread_num() * values);
    } catch (...) {
#pragma omp critical(tapegrad_attention)
      error = std::current_exception();
    }
  if (error) std::rethrow_exception(error);
}

template <typename T>
void attention_forward(const Tensor& q0, const Tensor& k0, const Tensor& v0, const Tensor& mask,
                       bool causal, double scale, const kernels::ShareDropout& dropout, Tensor& y,
                       Tensor& log_sums) {
  const Tensor q = plain(q0), k = plain(k0), v = plain(v0);
  const AttentionSizes s(q, v);
  const Scores<T> scores(mask, causal, scale);
  const Dropout<T> drop(dropout, s);
  const int64_t blocks = (s.queries + kBlockQueries - 1) / kBlockQueries;
  for_each_task<T>(s.batch * blocks, s.block(), s.shares(), [&](int64_t part, T* block) {
    const int64_t head = part / blocks, first = part % blocks * kBlockQueries;
    const int64_t rows = std::min(kBlockQueries, s.queries - first);
    const auto queries = from_row(matrix<T>(q, batch_offset(q, head)), first);
    const auto keys = matrix<T>(k, batch_offset(k, head));
    const auto values = matrix<T>(v, batch_offset(v, head));
    T* to = y.data<T>() + (head * s.queries + first) * s.width;
    T largest[kBlockQueries], sums[kBlockQueries];
    std::fill_n(largest, rows, -std::numeric_limits<T>::infinity());
    std::fill_n(sums, rows, T(0));
    const int64_t end = scores.last_key(first + rows, s.keys);
    for (int64_t j = 0; j < end; j += kBlockKeys) {
      const int64_t count = std::min(kBlockKeys, end - j);
      gemm(rows, count, s.features, queries, transposed(from_row(keys, j)), block, count);
      scores.finish(head, first, j, rows, count, block);
      for (int64_t r = 0; r < rows; ++r) {
        T* row = block + r * count;
        const T before = largest[r], now = std::max(before, largest_number(row, count));
        const T shift = std::isinf(now) && now < 0 ? T(0) : now;  // no key seen yet
        const T kept = std::exp(before - shift);
        largest[r] = now;
        sums[r] = sums[r] * kept + exp_shifted(row, count, shift, row);
        if (j > 0)
          for (int64_t c = 0; c < s.width; ++c) to[r * s.width + c] *= kept;
      }
      if (drop) drop.apply(head, first, j, rows, count, block);
      gemm(rows, s.width, count, Matrix<T>{block, count, 1}, from_row(values, j), to, s.width,
           /*accumulate=*/j > 0);
    }
    T* logs = log_sums.data<T>() + head * s.queries + first;
    for (int64_t r = 0; r < rows; ++r) {
      const bool nothing = sums[r] == 0 && scores.hides_all(head, first + r, s.keys);
      const T factor = nothing ? T(0) : 1 / sums[r];
      for (int64_t c = 0; c < s.width; ++c) to[r * s.width + c] *= factor;
      logs[r] = nothing ? std::numeric_limits<T>::infinity() : largest[r] + std::log(sums[r]);
    }
  });
}

// With P = exp(scores - log_sums) and D the dropout factors:
//   dV = (P * D)^T dy, dP = dy V^T * D, dS = P * (dP - row sums of y * dy),
//   dQ = scale dS K, dK = scale dS^T Q.
template <typename T>
void attention_backward(const Tensor& dy, const Tensor& q0, const Tensor& k0, const Tensor& v0,
                        const Tensor& mask, bool causal, double scale,
                        const kernels::ShareDropout& dropout, const Tensor& y,
                        const Tensor& log_sums, Tensor& dq, Tensor& dk, Tensor& dv) {
  const Tensor q = plain(q0), k = plain(k0), v = plain(v0);
  const AttentionSizes s(q, v);
  const Scores<T> scores(mask, causal, scale);
  const Dropout<T> drop(dropout, s);
  const auto of_head = [&](Tensor& x, int64_t head, int64_t size) {
    T* to = x ? x.data<T>() + head * size : nullptr;
    if (to != nullptr) std::fill_n(to, size, T(0));
    return to;
  };
  const int64_t block = s.block();
  for_each_task<T>(s.batch, 2 * block + s.queries, s.shares(), [&](int64_t head, T* memory) {
    T *shares = memory, *gradients = memory + block, *totals = memory + 2 * block;
    const auto queries = matrix<T>(q, batch_offset(q, head));
    const auto keys = matrix<T>(k, batch_offset(k, head));
    const auto values = matrix<T>(v, batch_offset(v, head));
    const Matrix<T> above{dy.data<T>() + head * s.queries * s.width, s.width, 1};
    const T* results = y.data<T>() + head * s.queries * s.width;
    const T* logs = log_sums.data<T>() + head * s.queries;
    T* to_q = of_head(dq, head, s.queries * s.features);
    T* to_k = of_head(dk, head, s.keys * s.features);
    T* to_v = of_head(dv, head, s.keys * s.width);
    for (int64_t i = 0; i < s.queries; ++i) {
      T sum = 0;
      for (int64_t c = 0; c < s.width; ++c)
        sum += above.data[i * s.width + c] * results[i * s.width + c];
      totals[i] = sum;
    }
    for (int64_t i = 0; i < s.queries; i += kBlockQueries) {
      const int64_t rows = std::min(kBlockQueries, s.queries - i);
      const auto above_block = from_row(above, i);
      const int64_t end = scores.last_key(i + rows, s.keys);
      for (int64_t j = 0; j < end; j += kBlockKeys) {
        const int64_t count = std::min(kBlockKeys, end - j);
        gemm(rows, count, s.features, from_row(queries, i), transposed(from_row(keys, j)), shares,
             count);
        scores.finish(head, i, j, rows, count, shares);
        for (int64_t r = 0; r < rows; ++r)
          exp_shifted(shares + r * count, count, logs[i + r], shares + r * count);
        if (to_v != nullptr) {
          if (drop) {
            std::copy_n(shares, rows * count, gradients);
            drop.apply(head, i, j, rows, count, gradients);
          }
          const Matrix<T> left{drop ? gradients : shares, count, 1};
          gemm(count, s.width, rows, transposed(left), above_block, to_v + j * s.width, s.width,
               /*accumulate=*/true);
        }
        if (to_q == nullptr && to_k == nullptr) continue;
        gemm(rows, count, s.width, above_block, transposed(from_row(values, j)), gradients, count);
        if (drop) drop.apply(head, i, j, rows, count, gradients);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < count; ++c)
            shares[r * count + c] *= T(scale) * (gradients[r * count + c] - totals[i + r]);
        const Matrix<T> as_rows{shares, count, 1};
        if (to_q != nullptr)
          gemm(rows, s.features, count, as_rows, from_row(keys, j), to_q + i * s.features,
               s.features, /*accumulate=*/true);
        if (to_k != nullptr)
          gemm(count, s.features, rows, transposed(as_rows), from_row(queries, i),
               to_k + j * s.features, s.features, /*accumulate=*/true);
      }
    }
  });
}

Tensor wide(const Tensor& x) { return x && x.dtype() != boolean ? x.to(f32) : x; }

/// Blockwise attention. The fallback is the composition of other ops (detail::attention_by_ops()).
struct AttentionBlocks {
  static constexpr std::string_view kName = "blocks";
  /// Rejects many short sequences: the fallback, whose products take all heads at once, is 1.5
  /// times as fast for 24 queries and keys, 1.1 times for 32 (docs/performance.md).
  static bool accepts(const Tensor& q, const Tensor&, const Tensor& v, const Tensor&, bool, double,
                      double, RandomState, const Tensor&, const Tensor&) {
    const AttentionSizes s(q, v);
    return s.queries < 4 || s.queries * s.keys > 1024 || s.batch < 32;
  }
  template <std::floating_point T>
  static void run(TypeTag<T>, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                  bool causal, double scale, double dropout_p, RandomState state, Tensor& y,
                  Tensor& log_sums) {
    attention_forward<T>(q, k, v, mask, causal, scale, {dropout_p, state}, y, log_sums);
  }
  /// Sixteen-bit floats: computes in float and rounds once.
  static void run(OneOf<float16, bfloat16>, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor& mask, bool causal, double scale, double dropout_p,
                  RandomState state, Tensor& y, Tensor& log_sums) {
    Tensor to_y = wide_like(y);
    attention_forward<float>(wide(q), wide(k), wide(v), wide(mask), causal, scale,
                             {dropout_p, state}, to_y, log_sums);
    kernels::copy(to_y, y);
  }
};

struct AttentionBackwardBlocks {
  static constexpr std::string_view kName = "blocks";
  template <std::floating_point T>
  static void run(TypeTag<T>, const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor& mask, bool causal, double scale, double dropout_p,
                  RandomState state, const Tensor& y, const Tensor& log_sums, Tensor& dq,
                  Tensor& dk, Tensor& dv) {
    attention_backward<T>(dy, q, k, v, mask, causal, scale, {dropout_p, state}, y, log_sums, dq, dk,
                          dv);
  }
  static void run(OneOf<float16, bfloat16>, const Tensor& dy, const Tensor& q, const Tensor& k,
                  const Tensor& v, const Tensor& mask, bool causal, double scale, double dropout_p,
                  RandomState state, const Tensor& y, const Tensor& log_sums, Tensor& dq,
                  Tensor& dk, Tensor& dv) {
    Tensor to_q = wide_like(dq), to_k = wide_like(dk), to_v = wide_like(dv);
    attention_backward<float>(wide(dy), wide(q), wide(k), wide(v), wide(mask), causal, scale,
                              {dropout_p, state}, wide(y), log_sums, to_q, to_k, to_v);
    if (dq) kernels::copy(to_q, dq);
    if (dk) kernels::copy(to_k, dk);
    if (dv) kernels::copy(to_v, dv);
  }
};

}  // namespace

void register_attention() {
  constexpr DeviceType kCpu = DeviceType::kCpu;
  set_implementations<kernels::attention, AttentionBlocks>(kCpu, kFloatTypes);
  set_implementations<kernels::attention_backward, AttentionBackwardBlocks>(kCpu, kFloatTypes);
}

}  // namespace tapegrad::backends::cpu
