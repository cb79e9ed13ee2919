// Reductions of a matrix's columns: the channels of channels-last images (packed.h). Neighbouring
// threads process neighbouring columns, and several threads of a block share a column. Their parts,
// and then the parts of the row pieces, are merged in a fixed order, so results are deterministic.
// reduce_frame.cuh explains the interface of a Reducer.
#pragma once

#include "backends/cuda/device/reduce_frame.cuh"

namespace tapegrad::backends::cuda {

inline constexpr int kColumnRows = kThreads / kWarp;  // threads of a block that share a column

template <typename Reducer>
__global__ void __launch_bounds__(kThreads)
    columns_kernel(Reducer reducer, int64_t rows, int64_t columns, int64_t pieces,
                   typename Reducer::Part* parts) {
  using Part = typename Reducer::Part;
  __shared__ __align__(16) unsigned char bytes[kThreads * sizeof(Part)];
  Part* shared = reinterpret_cast<Part*>(bytes);
  const int lane = int(threadIdx.x) % kWarp, line = int(threadIdx.x) / kWarp;
  const int64_t strips = (columns + kWarp - 1) / kWarp;
  for (int64_t i = blockIdx.x; i < strips * pieces; i += gridDim.x) {
    const int64_t piece = i / strips, column = i % strips * kWarp + lane;
    const int64_t last = rows * (piece + 1) / pieces;
    Part part = Reducer::first();
    if (column < columns)
#pragma unroll 4
      for (int64_t row = rows * piece / pieces + line; row < last; row += kColumnRows)
        part = reducer.add(part, row * columns + column, column);
    shared[threadIdx.x] = part;
    __syncthreads();
    if (line == 0 && column < columns) {
      for (int k = 1; k < kColumnRows; ++k) part = Reducer::merge(part, shared[k * kWarp + lane]);
      if (pieces == 1)
        reducer.finish(column, part);
      else
        parts[column * pieces + piece] = part;
    }
    __syncthreads();  // parts are read before the next ones are written
  }
}

/// Reduces the columns (the last dimension) of a contiguous x on its device.
template <typename Reducer>
void reduce_columns(const Reducer& reducer, const Tensor& x) {
  using Part = typename Reducer::Part;
  const int64_t columns = x.shape()[x.rank() - 1], rows = x.numel() / columns;
  const int64_t strips = (columns + kWarp - 1) / kWarp;
  // Enough blocks to fill the device, with at least 32 rows per thread.
  const int64_t enough = int64_t(devices().multiprocessors[x.device().index]) * 8 / strips;
  const int64_t pieces = std::clamp<int64_t>(std::min(enough, rows / (32 * kColumnRows)), 1, 1024);
  Tensor buffer;
  Part* parts = nullptr;
  if (pieces > 1) {
    buffer = Tensor::empty({columns * pieces * int64_t(sizeof(Part))}, u8, x.device());
    parts = reinterpret_cast<Part*>(buffer.data<uint8_t>());
  }
  launch(grid_for(strips * pieces, 1, x), &columns_kernel<Reducer>, reducer, rows, columns, pieces,
         parts);
  if (pieces > 1)
    launch(teams_for<WarpTeam>(columns, x), &merge_parts<Reducer>, reducer, columns, pieces, parts);
}

}  // namespace tapegrad::backends::cuda
