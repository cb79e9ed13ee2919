// Matrix transposition through tiles in shared memory: reads and writes both access whole rows of a
// tile.
#include "backends/cuda/device/launch.cuh"
#include "backends/cuda/layout/packed.h"

namespace tapegrad::backends::cuda {
namespace {

constexpr int kTile = 32;
constexpr int kLines = kThreads / kTile;  // lines that a block moves at once

template <typename Word>
__global__ void __launch_bounds__(kThreads)
    transpose_kernel(const Word* x, Word* y, int64_t batch, int64_t rows, int64_t columns) {
  __shared__ Word tile[kTile][kTile + 1];  // padded to avoid bank conflicts
  const int lane = int(threadIdx.x) % kTile, line = int(threadIdx.x) / kTile;
  const int64_t down = (rows + kTile - 1) / kTile, across = (columns + kTile - 1) / kTile;
  for (int64_t i = blockIdx.x; i < batch * down * across; i += gridDim.x) {
    const int64_t matrix = i / (down * across), rest = i - matrix * down * across;
    const int64_t row = rest / across * kTile, column = rest % across * kTile;
    const Word* from = x + matrix * rows * columns;
    Word* to = y + matrix * rows * columns;
    for (int k = line; k < kTile; k += kLines)
      if (row + k < rows && column + lane < columns)
        tile[k][lane] = from[(row + k) * columns + column + lane];
    __syncthreads();
    for (int k = line; k < kTile; k += kLines)
      if (column + k < columns && row + lane < rows)
        to[(column + k) * rows + row + lane] = tile[lane][k];
    __syncthreads();  // before the next tile overwrites this one
  }
}

template <typename Word>
void transpose_words(const std::byte* x, std::byte* y, int64_t batch, int64_t rows, int64_t columns,
                     tapegrad::Device device) {
  const int64_t tiles = batch * ((rows + kTile - 1) / kTile) * ((columns + kTile - 1) / kTile);
  const cudaStream_t stream = stream_of(device);
  const int64_t enough = int64_t(devices().multiprocessors[device.index]) * 32;
  launch({unsigned(std::min(tiles, enough)), kThreads, stream}, &transpose_kernel<Word>,
         reinterpret_cast<const Word*>(x), reinterpret_cast<Word*>(y), batch, rows, columns);
}

}  // namespace

void transpose(const std::byte* x, std::byte* y, int64_t batch, int64_t rows, int64_t columns,
               int64_t element, tapegrad::Device device) {
  if (batch * rows * columns == 0) return;
  if (element == 2) return transpose_words<uint16_t>(x, y, batch, rows, columns, device);
  transpose_words<uint32_t>(x, y, batch, rows, columns, device);
}

}  // namespace tapegrad::backends::cuda
