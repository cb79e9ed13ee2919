// Blockwise attention: computes y, and the logarithms of the sums for the gradient.
//
// The softmax over tiles of keys is computed online: it keeps the largest score of a row so far and
// multiplies earlier sums by exp(old maximum - new maximum).
#include "backends/cuda/cudnn/attention.h"
#include "backends/cuda/device/attention.cuh"
#include "backends/cuda/register.h"
#include "ops/internal/attention_blocks.h"

namespace tapegrad::backends::cuda {
namespace attention {
namespace {

struct Plus {
  template <typename V>
  __device__ V operator()(V a, V b) const {
    return a + b;
  }
};
struct Larger {  // ignores NaN, which shows up in the sum
  template <typename V>
  __device__ V operator()(V a, V b) const {
    return a < b ? b : a;
  }
};

/// Replaces scores by exp(score - largest), updates `largest`, and adds to the thread's part of the
/// sums. `kept` receives the factors of earlier sums.
template <typename Tiles, typename V>
__device__ void take(V (&scores)[Tiles::kRows][Tiles::kColumns], V (&largest)[Tiles::kRows],
                     V (&sums)[Tiles::kRows], V (&kept)[Tiles::kRows]) {
#pragma unroll
  for (int i = 0; i < Tiles::kRows; ++i) {
    V most = largest[i];
#pragma unroll
    for (int j = 0; j < Tiles::kColumns; ++j) most = Larger{}(most, scores[i][j]);
    most = Tiles::across(most, Larger{});
    const bool nothing_seen = most == -std::numeric_limits<V>::infinity();
    const V shift = nothing_seen ? V(0) : most;
    kept[i] = std::exp(largest[i] - shift);
    largest[i] = most;
    V sum = 0;
#pragma unroll
    for (int j = 0; j < Tiles::kColumns; ++j) sum += scores[i][j] = std::exp(scores[i][j] - shift);
    sums[i] = sums[i] * kept[i] + sum;
  }
}

template <typename Tiles, typename T>
__global__ void __launch_bounds__(Tiles::kThreads, Tiles::kBlocks)
    forward_kernel(Problem<T> p, T* y, Compute<T>* log_sums) {
  if constexpr (Tiles::kExists) {
    using V = Compute<T>;
    constexpr V kNone = -std::numeric_limits<V>::infinity();
    __shared__ typename Tiles::Memory memory;
    Tiles tiles(memory);
    const int64_t parts = parts_of<Tiles>(p.queries);
    for (int64_t part = blockIdx.x; part < parts * p.heads; part += gridDim.x) {
      // With a causal mask the last queries have the most work, so they start first.
      const int64_t head = part / parts, first = (parts - 1 - part % parts) * Tiles::kOwn;
      const Rows<T> keys = p.keys_of(head), values = p.values_of(head);
      const auto own = tiles.hold(p.queries_of(head), first);
      typename Tiles::Sums sums;
      tiles.clear(sums);
      V largest[Tiles::kRows], totals[Tiles::kRows], factors[Tiles::kRows];
#pragma unroll
      for (int i = 0; i < Tiles::kRows; ++i) largest[i] = kNone, totals[i] = 0;
      const int64_t end = p.last_key(first + Tiles::kOwn);
      for (int64_t key = 0; key < end; key += Tiles::kOther) {
        tiles.stage(0, keys, key);
        tiles.stage(1, values, key);
        __syncthreads();
        V scores[Tiles::kRows][Tiles::kColumns];
        tiles.multiply(own, 0, p.features, scores);
        finish_scores<true>(p, tiles, head, first, key, scores);
        take<Tiles>(scores, largest, totals, factors);
        drop<true>(p, tiles, head, first, key, scores);
        tiles.put(scores);
        tiles.scale(sums, factors);
        tiles.add(sums, 1, p.width);
        __syncthreads();  // the tile has been read
      }
#pragma unroll
      for (int i = 0; i < Tiles::kRows; ++i) {
        const V total = tiles.across(totals[i], Plus{});
        // A row that sees no key gives 0 with a mask tensor, otherwise NaN.
        const bool nothing = p.mask.data != nullptr && total == 0;
        factors[i] = nothing ? V(0) : 1 / total;
        const int64_t row = first + tiles.row(i);
        if (tiles.is_first() && row < p.queries)
          log_sums[head * p.queries + row] = nothing ? -kNone : largest[i] + std::log(total);
      }
      const Rows<T> to = dense<T>(y, head, p.queries, p.width);
      tiles.store(sums, factors, to, first, y + head * p.queries * p.width);
    }
  }
}

template <typename T>
void forward(const Tensor& q0, const Tensor& k0, const Tensor& v0, const Tensor& mask, bool causal,
             double scale, const kernels::ShareDropout& dropout, Tensor& y, Tensor& log_sums) {
  const Tensor q = by_rows(q0), k = by_rows(k0), v = by_rows(v0);
  const auto p = problem_of<T>(q, k, v, mask, causal, scale, dropout);
  with_width(p, [&]<int kWidth>(std::integral_constant<int, kWidth>) {
    using Engine = Tiles<T, kWidth>;
    launch(blocks_for<Engine>(p.heads, p.queries, y), &forward_kernel<Engine, T>, p, y.data<T>(),
           log_sums.data<Compute<T>>());
  });
}

}  // namespace
}  // namespace attention

namespace {

/// Returns whether the blocks, and so attention_backward, take such operands.
bool are_narrow(const Tensor& q, const Tensor& v) {
  const int64_t widest = std::max(q.shape()[q.rank() - 1], v.shape()[v.rank() - 1]);
  const bool has_cores = size_of(q.dtype()) > 2 || devices().generation[q.device().index] >= 8;
  return widest <= attention::kWidest && has_cores;
}

struct AttentionCudnn {
  static constexpr std::string_view kName = "cudnn";
  static bool accepts(const Tensor& q, const Tensor&, const Tensor& v, const Tensor& mask, bool,
                      double, double dropout_p, RandomState, const Tensor&, const Tensor&) {
    return !mask && dropout_p == 0 && are_narrow(q, v);
  }
  static bool run(OneOf<float16, bfloat16>, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor&, bool causal, double scale, double, RandomState, Tensor& y,
                  Tensor& log_sums) {
    return cudnn_attention(q, k, v, causal, scale, y, log_sums);
  }
};

struct AttentionBlocks {
  static constexpr std::string_view kName = "blocks";
  static constexpr bool kIsFallback = true;
  static bool accepts(const Tensor& q, const Tensor&, const Tensor& v, const Tensor&, bool, double,
                      double, RandomState, const Tensor&, const Tensor&) {
    return are_narrow(q, v);
  }
  template <typename T>
  static void run(TypeTag<T>, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                  bool causal, double scale, double dropout_p, RandomState state, Tensor& y,
                  Tensor& log_sums) {
    attention::forward<T>(q, k, v, mask, causal, scale, {dropout_p, state}, y, log_sums);
  }
};

}  // namespace

void register_attention() {
  set_implementations<kernels::attention, AttentionCudnn, AttentionBlocks>(kFloatTypes);
}

}  // namespace tapegrad::backends::cuda
