// Reductions over any dimensions of strided tensors.
//
// A Reducer defines the elements, the operation and the destination:
//
//   struct SumOf {
//     using Part = float;
//     const T* x;
//     T* y;
//     static Part first();                                          // the neutral element
//     Part add(Part part, int64_t at, int64_t output) const;        // adds the element x[at]
//     static Part merge(Part a, Part b);                            // commutative
//     void finish(int64_t output, Part part) const;                 // y[output] = part
//   };
//
// Each output is computed by one warp (or thread). If there are few outputs with many elements,
// several warps compute parts, which are then merged in a fixed order, so results are
// deterministic.
#pragma once

#include "backends/cuda/device/numeric.cuh"
#include "backends/cuda/device/team.cuh"
#include "backends/cuda/layout/reduce_plan.h"

namespace tapegrad::backends::cuda {

template <typename Reducer>
struct Merge {
  using Part = typename Reducer::Part;
  __device__ Part operator()(Part a, Part b) const { return Reducer::merge(a, b); }
};

/// Least number of blocks on a multiprocessor; 0: none. Without a number, ptxas spills registers of
/// some parts of several doubles to have room for more blocks.
template <typename Reducer>
inline constexpr int kReduceBlocks = sizeof(typename Reducer::Part) >= 16 ? 4 : 0;

/// Piece p of output o is part o * pieces + p. A piece is processed by a warp, or by one thread if
/// plan.lanes is 1. The elements of a thread's pieces are interleaved, so that neighbouring threads
/// read neighbouring outputs of one row, and then of the next. One body serves both cases, to limit
/// compile time: there are many reducers.
template <typename Reducer>
__global__ void __launch_bounds__(kThreads, kReduceBlocks<Reducer>)
    reduce_kernel(Reducer reducer, ReductionPlan plan, typename Reducer::Part* parts) {
  const int64_t step = item_step() / plan.lanes, rank = threadIdx.x % plan.lanes;
  for (int64_t i = first_item() / plan.lanes; i < plan.outputs * plan.pieces; i += step) {
    const bool by_thread = plan.lanes == 1;
    const int64_t output = by_thread ? i % plan.outputs : i / plan.pieces;
    const int64_t piece = by_thread ? i / plan.outputs : i % plan.pieces;
    const int64_t base = plan.kept.offset(output);
    const int64_t first = by_thread ? piece : plan.reduced_count * piece / plan.pieces + rank;
    const int64_t last =
        by_thread ? plan.reduced_count : plan.reduced_count * (piece + 1) / plan.pieces;
    const int64_t stride = by_thread ? plan.pieces : kWarp;
    auto part = Reducer::first();
#pragma unroll 1
    for (int64_t k = first; k < last; k += stride)
      part = reducer.add(part, base + plan.reduced.offset(k), output);
    if (plan.lanes == kWarp) part = warp_reduce(part, Merge<Reducer>{});
    if (rank != 0) continue;
    if (plan.pieces == 1)
      reducer.finish(output, part);
    else
      parts[output * plan.pieces + piece] = part;
  }
}

template <typename Reducer>
__global__ void __launch_bounds__(kThreads)
    merge_parts(Reducer reducer, int64_t outputs, int64_t pieces,
                const typename Reducer::Part* parts) {
  for (int64_t output = WarpTeam::first(); output < outputs; output += WarpTeam::step()) {
    auto part = Reducer::first();
    for (int64_t k = WarpTeam::rank(); k < pieces; k += kWarp)
      part = Reducer::merge(part, parts[output * pieces + k]);
    part = warp_reduce(part, Merge<Reducer>{});
    if (WarpTeam::rank() == 0) reducer.finish(output, part);
  }
}

/// Reduces x. y, which has x's rank and size 1 where x is reduced, and is contiguous, defines the
/// reduced dimensions.
template <typename Reducer>
void reduce(const Reducer& reducer, const Tensor& x, const Tensor& y) {
  using Part = typename Reducer::Part;
  const ReductionPlan plan = plan_reduction(x, y);
  if (plan.outputs == 0) return;
  Tensor buffer;
  Part* parts = nullptr;
  if (plan.pieces > 1) {
    buffer = Tensor::empty({plan.outputs * plan.pieces * int64_t(sizeof(Part))}, u8, y.device());
    parts = reinterpret_cast<Part*>(buffer.data<uint8_t>());
  }
  launch(threads_for(plan.outputs * plan.pieces * plan.lanes, y), &reduce_kernel<Reducer>, reducer,
         plan, parts);
  if (plan.pieces > 1)
    launch(teams_for<WarpTeam>(plan.outputs, y), &merge_parts<Reducer>, reducer, plan.outputs,
           plan.pieces, parts);
}

}  // namespace tapegrad::backends::cuda
