// The gradients of blockwise attention. With P = exp(scores - log_sums), recomputed here, D the
// dropout factors and dS = P * (D * dy v^T - row sums of y * dy):
//
//   dv = (P * D)^T dy      dq = scale dS k      dk = scale dS^T q
//
// Each gradient is summed by the thread blocks that own its rows, in a fixed order. P is therefore
// computed three times; computing two gradients in one kernel would save one of these but exceed
// the registers.
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

/// Two numbers of each query: the logarithm of the sum of exp(scores), and the sum of y * dy.
template <typename V>
struct OfQueries {
  const V *log_sums, *totals;
};

/// Copies the values of kCount queries, starting at `first`, to shared memory.
template <int kCount, typename T, typename V>
__device__ void load(const Problem<T>& p, int64_t head, int64_t first, const V* from, V* to) {
  for (int64_t i = threadIdx.x; i < kCount; i += blockDim.x)
    to[i] = first + i < p.queries ? from[head * p.queries + first + i] : V(0);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    totals_kernel(int64_t rows, int64_t width, const T* y, const T* dy, Compute<T>* totals) {
  for (int64_t row = WarpTeam::first(); row < rows; row += WarpTeam::step()) {
    Compute<T> sum = 0;
    for (int64_t i = WarpTeam::rank(); i < width; i += kWarp)
      sum += widen(y[row * width + i]) * widen(dy[row * width + i]);
    sum = WarpTeam::reduce(sum, Plus{});
    if (WarpTeam::rank() == 0) totals[row] = sum;
  }
}

template <typename Tiles, typename T>
__global__ void __launch_bounds__(Tiles::kThreads, Tiles::kBlocks)
    values_kernel(Problem<T> p, const Compute<T>* all_log_sums, T* dv) {
  if constexpr (Tiles::kExists) {
    using V = Compute<T>;
    __shared__ typename Tiles::Memory memory;
    __shared__ V log_sums[Tiles::kOther];
    Tiles tiles(memory);
    const int64_t parts = parts_of<Tiles>(p.keys);
    for (int64_t part = blockIdx.x; part < parts * p.heads; part += gridDim.x) {
      const int64_t head = part / parts, first = part % parts * Tiles::kOwn;
      const Rows<T> queries = p.queries_of(head), above = p.gradients_of(head);
      const auto own = tiles.hold(p.keys_of(head), first);
      typename Tiles::Sums sums;
      tiles.clear(sums);
      for (int64_t i = p.first_query(first); i < p.queries; i += Tiles::kOther) {
        tiles.stage(0, queries, i);
        tiles.stage(1, above, i);
        load<Tiles::kOther>(p, head, i, all_log_sums, log_sums);
        __syncthreads();
        V shares[Tiles::kRows][Tiles::kColumns];
        tiles.multiply(own, 0, p.features, shares);
        finish_scores<false>(p, tiles, head, first, i, shares);
#pragma unroll
        for (int r = 0; r < Tiles::kRows; ++r)
#pragma unroll
          for (int c = 0; c < Tiles::kColumns; ++c)
            shares[r][c] = std::exp(shares[r][c] - log_sums[tiles.column(c)]);
        drop<false>(p, tiles, head, first, i, shares);
        tiles.put(shares);
        tiles.add(sums, 1, p.width);
        __syncthreads();  // the tile has been read
      }
      V factors[Tiles::kRows];
#pragma unroll
      for (int r = 0; r < Tiles::kRows; ++r) factors[r] = 1;
      tiles.store(sums, factors, dense<T>(dv, head, p.keys, p.width), first,
                  dv + head * p.keys * p.width);
    }
  }
}

/// Computes dq if blocks own queries, else dk.
template <bool kOwnsQueries, typename Tiles, typename T>
__global__ void __launch_bounds__(Tiles::kThreads, Tiles::kBlocks)
    scores_kernel(Problem<T> p, OfQueries<Compute<T>> of, T* dx) {
  if constexpr (Tiles::kExists) {
    using V = Compute<T>;
    __shared__ typename Tiles::Memory memory;
    constexpr int kQueries = kOwnsQueries ? Tiles::kOwn : Tiles::kOther;
    __shared__ V log_sums[kQueries], totals[kQueries];
    Tiles tiles(memory);
    const int64_t rows = kOwnsQueries ? p.queries : p.keys;
    const int64_t parts = parts_of<Tiles>(rows);
    for (int64_t part = blockIdx.x; part < parts * p.heads; part += gridDim.x) {
      const int64_t head = part / parts;
      const int64_t at = kOwnsQueries ? parts - 1 - part % parts : part % parts;  // long ones first
      const int64_t first = at * Tiles::kOwn;
      const Rows<T> queries = p.queries_of(head), keys = p.keys_of(head);
      const Rows<T> above = p.gradients_of(head), values = p.values_of(head);
      const auto own = tiles.hold(kOwnsQueries ? queries : keys, first);
      const auto second = tiles.hold_second(kOwnsQueries ? above : values, first);
      typename Tiles::Sums sums;
      tiles.clear(sums);
      const auto load_queries = [&](int64_t query) {
        load<kQueries>(p, head, query, of.log_sums, log_sums);
        load<kQueries>(p, head, query, of.totals, totals);
      };
      if constexpr (kOwnsQueries) load_queries(first);
      const int64_t end = kOwnsQueries ? p.last_key(first + Tiles::kOwn) : p.queries;
      for (int64_t i = kOwnsQueries ? 0 : p.first_query(first); i < end; i += Tiles::kOther) {
        tiles.stage(0, kOwnsQueries ? keys : queries, i);
        tiles.stage(1, kOwnsQueries ? values : above, i);
        if constexpr (!kOwnsQueries) load_queries(i);
        __syncthreads();
        V shares[Tiles::kRows][Tiles::kColumns];
        tiles.multiply(own, 0, p.features, shares);
        finish_scores<kOwnsQueries>(p, tiles, head, first, i, shares);
        const auto kept = draw_kept<kOwnsQueries>(p, tiles, head, first, i);
        const V scale = V(p.dropped.scale);  // 1 without dropout
        // Few gradients of shares are in registers at a time.
        tiles.multiply_each(second, 1, p.width, [&](int r, int c, V gradient) {
          const int query = kOwnsQueries ? tiles.row(r) : tiles.column(c);
          shares[r][c] = std::exp(shares[r][c] - log_sums[query]) *
                         (kept(r, c, gradient, scale) - totals[query]);
        });
        tiles.put(shares);
        tiles.add(sums, 0, p.features);
        __syncthreads();  // the tile has been read
      }
      V factors[Tiles::kRows];
#pragma unroll
      for (int r = 0; r < Tiles::kRows; ++r) factors[r] = V(p.scale);
      tiles.store(sums, factors, dense<T>(dx, head, rows, p.features), first,
                  dx + head * rows * p.features);
    }
  }
}

template <typename T>
void backward(const Tensor& dy, const Tensor& q0, const Tensor& k0, const Tensor& v0,
              const Tensor& mask, bool causal, double scale, const kernels::ShareDropout& dropout,
              const Tensor& y, const Tensor& log_sums, Tensor& dq, Tensor& dk, Tensor& dv) {
  using V = Compute<T>;
  const Tensor q = by_rows(q0), k = by_rows(k0), v = by_rows(v0);
  auto p = problem_of<T>(q, k, v, mask, causal, scale, dropout);
  p.dy = matrices_of<T>(dy);
  OfQueries<V> of{log_sums.data<V>(), nullptr};
  Tensor totals;
  if (dq || dk) {
    const int64_t rows = p.heads * p.queries;
    totals = log_sums.empty_like({rows});
    launch(teams_for<WarpTeam>(rows, y), &totals_kernel<T>, rows, int64_t(p.width), y.data<T>(),
           dy.data<T>(), totals.data<V>());
    of.totals = totals.data<V>();
  }
  with_width(p, [&]<int kWidth>(std::integral_constant<int, kWidth>) {
    using One = Tiles<T, kWidth>;
    using Two = Tiles<T, kWidth, true>;
    if (dv)
      launch(blocks_for<One>(p.heads, p.keys, y), &values_kernel<One, T>, p, of.log_sums,
             dv.data<T>());
    if (dq)
      launch(blocks_for<Two>(p.heads, p.queries, y), &scores_kernel<true, Two, T>, p, of,
             dq.data<T>());
    if (dk)
      launch(blocks_for<Two>(p.heads, p.keys, y), &scores_kernel<false, Two, T>, p, of,
             dk.data<T>());
  });
}

}  // namespace
}  // namespace attention

namespace {

struct AttentionBackwardCudnn {
  static constexpr std::string_view kName = "cudnn";
  static bool accepts(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                      const Tensor& mask, bool, double, double dropout_p, RandomState,
                      const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
    return !mask && dropout_p == 0;
  }
  static bool run(OneOf<float16, bfloat16>, const Tensor& dy, const Tensor& q, const Tensor& k,
                  const Tensor& v, const Tensor&, bool causal, double scale, double, RandomState,
                  const Tensor& y, const Tensor& log_sums, Tensor& dq, Tensor& dk, Tensor& dv) {
    return cudnn_attention_backward(dy, q, k, v, causal, scale, y, log_sums, dq, dk, dv);
  }
};

struct AttentionBackwardBlocks {
  static constexpr std::string_view kName = "blocks";
  template <typename T>
  static void run(TypeTag<T>, const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& v,
                  const Tensor& mask, bool causal, double scale, double dropout_p,
                  RandomState state, const Tensor& y, const Tensor& log_sums, Tensor& dq,
                  Tensor& dk, Tensor& dv) {
    attention::backward<T>(dy, q, k, v, mask, causal, scale, {dropout_p, state}, y, log_sums, dq,
                           dk, dv);
  }
};

}  // namespace

void register_attention_backward() {
  set_implementations<kernels::attention_backward, AttentionBackwardCudnn, AttentionBackwardBlocks>(
      kFloatTypes);
}

}  // namespace tapegrad::backends::cuda
