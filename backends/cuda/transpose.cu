// Matrix transposition through tiles in shared memory: reads and writes both access whole rows of a
// tile. Rows that are not longer than a tile are read or written as one line, if they are adjacent.
#include "backends/cuda/layout/transpose.h"

#include "backends/cuda/device/launch.cuh"
#include "backends/cuda/device/numeric.cuh"
#include "backends/cuda/layout/reduce_plan.h"
#include "backends/joint_layout.h"

namespace tapegrad::backends::cuda {
namespace {

constexpr int kTile = 32;
constexpr int kLines = kThreads / kTile;  // lines that a block moves at once
constexpr int64_t kLeast = 8;             // rows and columns of a matrix that is worth tiles

/// Matrices x of adjacent columns, and y of adjacent rows.
struct Matrices {
  int64_t batch, rows, columns;
  int64_t x_step, y_step;  // from a row of x to the next, and from a column of y
  Nest from, to;           // offsets of the matrices
};

template <typename Word>
__global__ void __launch_bounds__(kThreads) transpose_kernel(const Word* x, Word* y, Matrices m) {
  __shared__ Word tile[kTile][kTile + 1];  // padded to avoid bank conflicts
  const int lane = int(threadIdx.x) % kTile, line = int(threadIdx.x) / kTile;
  const int64_t down = (m.rows + kTile - 1) / kTile, across = (m.columns + kTile - 1) / kTile;
  for (int64_t i = blockIdx.x; i < m.batch * down * across; i += gridDim.x) {
    const int64_t matrix = i / (down * across), rest = i - matrix * down * across;
    const int64_t row = rest / across * kTile, column = rest % across * kTile;
    const Word* from = x + m.from.offset(matrix) + row * m.x_step + column;
    Word* to = y + m.to.offset(matrix) + column * m.y_step + row;
    const int height = int(m.rows - row < kTile ? m.rows - row : kTile);
    const int width = int(m.columns - column < kTile ? m.columns - column : kTile);
    if (m.x_step == width) {
      for (int k = int(threadIdx.x); k < height * width; k += kThreads)
        tile[k / width][k % width] = from[k];
    } else {
      for (int k = line; k < height; k += kLines)
        if (lane < width) tile[k][lane] = from[k * m.x_step + lane];
    }
    __syncthreads();
    if (m.y_step == height) {
      for (int k = int(threadIdx.x); k < height * width; k += kThreads)
        to[k] = tile[k % height][k / height];
    } else {
      for (int k = line; k < width; k += kLines)
        if (lane < height) to[k * m.y_step + lane] = tile[lane][k];
    }
    __syncthreads();  // before the next tile overwrites this one
  }
}

void run(const std::byte* x, std::byte* y, const Matrices& m, int64_t element,
         tapegrad::Device device) {
  const int64_t tiles =
      m.batch * ((m.rows + kTile - 1) / kTile) * ((m.columns + kTile - 1) / kTile);
  const cudaStream_t stream = stream_of(device);
  const int64_t enough = int64_t(devices().multiprocessors[device.index]) * 32;
  const auto start = [&]<typename Word>(Word) {
    launch({unsigned(std::min(tiles, enough)), kThreads, stream}, &transpose_kernel<Word>,
           reinterpret_cast<const Word*>(x), reinterpret_cast<Word*>(y), m);
  };
  if (element == 1) return start(uint8_t{});
  if (element == 2) return start(uint16_t{});
  if (element == 4) return start(uint32_t{});
  start(uint64_t{});
}

}  // namespace

void transpose(const std::byte* x, std::byte* y, int64_t batch, int64_t rows, int64_t columns,
               int64_t element, tapegrad::Device device) {
  if (batch * rows * columns == 0) return;
  Nest step;
  step.rank = 1;
  step.sizes[0] = batch;
  step.steps[0] = rows * columns;
  run(x, y, {batch, rows, columns, columns, rows, step, step}, element, device);
}

bool copy_transposed(const Tensor& x, Tensor& y) {
  if (y.numel() == 0) return false;
  JointLayout<2> joint;
  for (int d = 0; d < x.rank(); ++d) joint.add_dim(x.shape()[d], {x.strides()[d], y.strides()[d]});
  const int last = joint.rank - 1;
  if (last < 1 || joint.strides[0][size_t(last)] == 1 || joint.strides[1][size_t(last)] != 1)
    return false;
  int along = last;  // the dimension along which x is adjacent
  while (along >= 0 && joint.strides[0][size_t(along)] != 1) --along;
  if (along < 0 || joint.sizes[size_t(along)] < kLeast || joint.sizes[size_t(last)] < kLeast)
    return false;
  Matrices m{1,
             joint.sizes[size_t(last)],
             joint.sizes[size_t(along)],
             joint.strides[0][size_t(last)],
             joint.strides[1][size_t(along)],
             {},
             {}};
  for (int d = 0; d < last; ++d) {
    if (d == along) continue;
    m.batch *= joint.sizes[size_t(d)];
    m.from.sizes[m.from.rank] = m.to.sizes[m.to.rank] = joint.sizes[size_t(d)];
    m.from.steps[m.from.rank++] = joint.strides[0][size_t(d)];
    m.to.steps[m.to.rank++] = joint.strides[1][size_t(d)];
  }
  const int64_t element = size_of(x.dtype());
  run(x.storage().data() + x.layout().offset * element,
      y.storage().data() + y.layout().offset * element, m, element, y.device());
  return true;
}

}  // namespace tapegrad::backends::cuda
