// Teams: the threads that share a row of work, which are one thread, a warp or a block. One kernel
// body serves all kinds.
//
//   template <typename Team> __global__ void row_sums(...) {
//     for (int64_t row = Team::first(); row < rows; row += Team::step()) {
//       float sum = 0;
//       for (int64_t i = Team::rank(); i < n; i += Team::kSize) sum += x[row * n + i];
//       sum = Team::reduce(sum, Plus{});     // in every thread
//     }
//   }
//
// Values are merged in a fixed order, so results are deterministic.
#pragma once

#include "backends/cuda/device/launch.cuh"

namespace tapegrad::backends::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffu;
inline constexpr int kWarp = 32;

/// Exchanges a value of any trivial type between lanes; shuffle(word) exchanges a word of it.
template <typename V, typename Shuffle>
__device__ V shuffle_words(V value, const Shuffle& shuffle) {
  static_assert(std::is_trivially_copyable_v<V> && sizeof(V) % 4 == 0);
  using Word = std::conditional_t<sizeof(V) % 8 == 0, unsigned long long, unsigned>;
  constexpr int kWords = sizeof(V) / sizeof(Word);
  Word words[kWords];
  memcpy(words, &value, sizeof(V));
  for (int i = 0; i < kWords; ++i) words[i] = shuffle(words[i]);
  memcpy(&value, words, sizeof(V));
  return value;
}
template <typename V>
__device__ V shuffle_xor(V value, int lanes) {
  return shuffle_words(value, [=](auto word) { return __shfl_xor_sync(kAllLanes, word, lanes); });
}
/// Returns the value of the lane `lanes` below; the lowest lanes keep their own value.
template <typename V>
__device__ V shuffle_up(V value, int lanes) {
  return shuffle_words(value, [=](auto word) { return __shfl_up_sync(kAllLanes, word, lanes); });
}
template <typename V>
__device__ V shuffle_from(V value, int lane) {
  return shuffle_words(value, [=](auto word) { return __shfl_sync(kAllLanes, word, lane); });
}

/// Returns the merged value in every lane; merge must be commutative.
template <typename V, typename Merge>
__device__ V warp_reduce(V value, const Merge& merge) {
  for (int lanes = kWarp / 2; lanes > 0; lanes /= 2)
    value = merge(value, shuffle_xor(value, lanes));
  return value;
}

/// One thread per row; neighbouring threads have neighbouring rows.
struct ThreadTeam {
  static constexpr int kSize = 1;
  __device__ static int rank() { return 0; }
  __device__ static int64_t first() { return first_item(); }
  __device__ static int64_t step() { return item_step(); }
  template <typename V, typename Merge>
  __device__ static V reduce(V value, const Merge&) {
    return value;
  }
};

struct WarpTeam {
  static constexpr int kSize = kWarp;
  __device__ static int rank() { return int(threadIdx.x % kWarp); }
  __device__ static int64_t first() { return first_item() / kWarp; }
  __device__ static int64_t step() { return item_step() / kWarp; }
  template <typename V, typename Merge>
  __device__ static V reduce(V value, const Merge& merge) {
    return warp_reduce(value, merge);
  }
};

/// A block of kThreads per row.
struct BlockTeam {
  static constexpr int kSize = kThreads;
  __device__ static int rank() { return int(threadIdx.x); }
  __device__ static int64_t first() { return blockIdx.x; }
  __device__ static int64_t step() { return gridDim.x; }
  template <typename V, typename Merge>
  __device__ static V reduce(V value, const Merge& merge) {
    constexpr int kWarps = kThreads / kWarp;
    __shared__ __align__(16) unsigned char bytes[kWarps * sizeof(V)];
    V* parts = reinterpret_cast<V*>(bytes);
    value = warp_reduce(value, merge);
    __syncthreads();  // parts[] of a previous reduction has been read
    if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = parts[0];
    for (int i = 1; i < kWarps; ++i) value = merge(value, parts[i]);
    return value;
  }
};

/// Calls run(Team{}) with the smallest team that suits rows of n elements with stride `step`. If
/// rows are interleaved (step > 1), neighbouring threads process neighbouring rows.
template <typename Run>
void with_team(int64_t n, int64_t step, const Run& run) {
  if (n <= 4 || step > 1) return run(ThreadTeam{});
  if (n <= 1024) return run(WarpTeam{});
  run(BlockTeam{});
}

/// Returns a grid with one team per row.
template <typename Team>
LaunchConfig teams_for(int64_t rows, const Tensor& y) {
  constexpr int kTeams = kThreads / Team::kSize;
  LaunchConfig config = grid_for(rows, kTeams, y);
  if (rows < kTeams) config.block = whole_warps(rows * Team::kSize);
  return config;
}

}  // namespace tapegrad::backends::cuda
