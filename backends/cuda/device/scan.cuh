// Scans (cumulative ops) along rows.
//
// A Scan defines the operation:
//
//   struct RunningSum {
//     using State = double;                        // of a range of elements
//     static constexpr bool kOneByOne = false;     // true: `after` must be a single element
//     __device__ State none() const;               // of no elements
//     __device__ State load(int64_t at, int64_t i) const;  // of element i of a row, at offset `at`
//     __device__ State merge(State before, State after) const;
//     __device__ void store(int64_t at, State state) const;
//   };
//
// The order of merges depends only on the sizes, so results are deterministic.
#pragma once

#include "backends/cuda/device/rows.cuh"
#include "backends/cuda/device/team.cuh"

namespace tapegrad::backends::cuda {

/// Least number of blocks on a multiprocessor. Without a number, ptxas spills registers of some
/// scans to have room for more blocks.
template <typename Scan>
inline constexpr int kScanBlocks = sizeof(typename Scan::State) > 8 ? 3 : 4;

/// The merged state of all preceding threads, and of all threads.
template <typename State>
struct Prefix {
  State before, all;
};

template <typename Scan, typename State = typename Scan::State>
__device__ Prefix<State> prefix_of(WarpTeam, const Scan& scan, State own) {
  for (int lanes = 1; lanes < kWarp; lanes *= 2) {
    const State other = shuffle_up(own, lanes);
    if (WarpTeam::rank() >= lanes) own = scan.merge(other, own);
  }
  const State before = shuffle_up(own, 1);
  return {WarpTeam::rank() > 0 ? before : scan.none(), shuffle_from(own, kWarp - 1)};
}

template <typename Scan, typename State = typename Scan::State>
__device__ Prefix<State> prefix_of(BlockTeam, const Scan& scan, State own) {
  constexpr int kWarps = kThreads / kWarp;
  __shared__ __align__(16) unsigned char bytes[kWarps * sizeof(State)];
  State* warps = reinterpret_cast<State*>(bytes);
  const auto [before, all] = prefix_of(WarpTeam{}, scan, own);
  __syncthreads();  // warps[] of a previous call has been read
  if (WarpTeam::rank() == 0) warps[threadIdx.x / kWarp] = all;
  __syncthreads();
  State in_front = scan.none(), total = scan.none();
  for (int warp = 0; warp < kWarps; ++warp) {
    if (warp == int(threadIdx.x) / kWarp) in_front = total;
    total = scan.merge(total, warps[warp]);
  }
  return {scan.merge(in_front, before), total};
}

/// Continues a scan over elements [first, last) of a row and stores the running results. Returns
/// the final state.
template <bool kStores, typename Team, typename Scan, typename State = typename Scan::State>
__device__ State run_along(Team team, const Scan& scan, const Rows& rows, int64_t row,
                           int64_t first, int64_t last, State state) {
  const auto at = [begin = rows.begin(row), step = rows.step](int64_t i) {
    return begin + i * step;
  };
  if constexpr (Team::kSize == 1) {
    for (int64_t i = first; i < last; ++i) {
      state = scan.merge(state, scan.load(at(i), i));
      if (kStores) scan.store(at(i), state);
    }
  } else {
    constexpr int kItems = 4;  // consecutive items per thread
    for (int64_t i = first; i < last; i += Team::kSize * kItems) {
      const int64_t begin = i + Team::rank() * kItems,
                    end = begin + kItems < last ? begin + kItems : last;
      State own = scan.none();
      for (int64_t k = begin; k < end; ++k) own = scan.merge(own, scan.load(at(k), k));
      const auto [before, all] = prefix_of(team, scan, own);
      if (kStores) {
        own = scan.merge(state, before);
        for (int64_t k = begin; k < end; ++k) {
          own = scan.merge(own, scan.load(at(k), k));
          scan.store(at(k), own);
        }
      }
      state = scan.merge(state, all);
    }
  }
  return state;
}

/// Scans each row with one team.
template <typename Team, typename Scan>
__global__ void __launch_bounds__(kThreads, kScanBlocks<Scan>) scan_rows(Scan scan, Rows rows) {
  for (int64_t row = Team::first(); row < rows.count; row += Team::step())
    run_along<true>(Team{}, scan, rows, row, 0, rows.n, scan.none());
}

// Few long rows are cut into pieces, with a block for each: scan_pieces<false> computes the state
// of each piece, run_into_pieces the state before each piece, and scan_pieces<true> the results.

inline constexpr int64_t kPiece = 4096;

template <bool kStores, typename Scan>
__global__ void __launch_bounds__(kThreads, kScanBlocks<Scan>)
    scan_pieces(Scan scan, Rows rows, int64_t pieces, typename Scan::State* states) {
  for (int64_t at = blockIdx.x; at < rows.count * pieces; at += gridDim.x) {
    const int64_t first = at % pieces * kPiece;
    const int64_t last = first + kPiece < rows.n ? first + kPiece : rows.n;
    const auto state = run_along<kStores>(BlockTeam{}, scan, rows, at / pieces, first, last,
                                          kStores ? states[at] : scan.none());
    if (!kStores && threadIdx.x == 0) states[at] = state;
  }
}

template <typename Scan>
__global__ void __launch_bounds__(kThreads, kScanBlocks<Scan>)
    run_into_pieces(Scan scan, int64_t rows, int64_t pieces, typename Scan::State* states) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    auto state = scan.none();
    for (int64_t i = 0; i < pieces; i += kThreads) {
      const int64_t piece = i + int64_t(threadIdx.x), at = row * pieces + piece;
      const auto own = piece < pieces ? states[at] : scan.none();
      const auto [before, all] = prefix_of(BlockTeam{}, scan, own);
      if (piece < pieces) states[at] = scan.merge(state, before);
      state = scan.merge(state, all);
    }
  }
}

/// Scans along the middle of x's three dimensions.
template <typename Scan>
void run_scan(const Scan& scan, const Tensor& x) {
  using State = typename Scan::State;
  constexpr int64_t kManyRows = 1024;  // rows that keep a device busy with a thread or block each
  const Rows rows(x);
  if (x.numel() == 0) return;
  if (Scan::kOneByOne || rows.n <= 8 || (rows.step > 1 && rows.count >= kManyRows))
    return launch(teams_for<ThreadTeam>(rows.count, x), &scan_rows<ThreadTeam, Scan>, scan, rows);
  if constexpr (!Scan::kOneByOne) {
    if (rows.n <= 1024)
      return launch(teams_for<WarpTeam>(rows.count, x), &scan_rows<WarpTeam, Scan>, scan, rows);
    if (rows.n <= kPiece || rows.count >= kManyRows)
      return launch(teams_for<BlockTeam>(rows.count, x), &scan_rows<BlockTeam, Scan>, scan, rows);
    const int64_t pieces = (rows.n + kPiece - 1) / kPiece;
    const Tensor storage =
        Tensor::empty({rows.count * pieces * int64_t(sizeof(State))}, u8, x.device());
    State* states = reinterpret_cast<State*>(storage.data<uint8_t>());
    const LaunchConfig each = teams_for<BlockTeam>(rows.count * pieces, x);
    launch(each, &scan_pieces<false, Scan>, scan, rows, pieces, states);
    launch(teams_for<BlockTeam>(rows.count, x), &run_into_pieces<Scan>, scan, rows.count, pieces,
           states);
    launch(each, &scan_pieces<true, Scan>, scan, rows, pieces, states);
  }
}

}  // namespace tapegrad::backends::cuda
