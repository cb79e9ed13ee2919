// Attention tiles by multiply-adds, for float and double. attention.cuh explains tiles.
#pragma once

#include "backends/cuda/device/attention_problem.cuh"
#include "backends/cuda/device/team.cuh"

namespace tapegrad::backends::cuda::attention {

/// 16 x 16 threads. Each thread computes a square of scores whose side is a 16-byte load from
/// shared memory. Operands pass through shared memory in pieces.
template <typename T, int kWidth>
class ScalarTiles {
  static constexpr int kSide = 16;   // threads
  static constexpr int kPiece = 32;  // columns or rows in shared memory at a time
  static constexpr int kPack = 16 / sizeof(T);
  static constexpr int kLine = kSide * kPack + kPack;  // longer than a tile, to avoid bank
                                                       // conflicts

 public:
  static constexpr bool kExists = true;  // supported by the target architecture
  static constexpr int kThreads = kSide * kSide;
  static constexpr int kBlocks = kWidth <= 64 ? 2 : 1;  // blocks for which a multiprocessor has
                                                        // registers
  static constexpr int kOwn = kSide * kPack, kOther = kOwn;
  static constexpr int kRows = kPack, kColumns = kPack;

  struct alignas(16) Memory {
    T pieces[std::max(2 * kPiece * kLine, kPiece* kWidth)];
    T weights[kOther * kLine];  // of the tile, one line for each of its rows
  };
  /// Rows of an operand, starting at `first`.
  struct Held {
    Rows<T> rows;
    int64_t first;
  };
  using SecondHeld = Held;
  /// kRows rows of partial sums.
  struct Sums {
    T part[kRows][kWidth / kSide];
  };

  __device__ explicit ScalarTiles(Memory& memory)
      : memory_(memory), x_(int(threadIdx.x) % kSide), y_(int(threadIdx.x) / kSide) {}

  __device__ int row(int i) const { return y_ * kRows + i; }
  __device__ int column(int j) const { return x_ * kColumns + j; }
  /// Returns whether this thread represents the threads that share its rows.
  __device__ bool is_first() const { return x_ == 0; }
  template <typename Merge>
  __device__ static T across(T value, const Merge& merge) {
    for (int lanes = kSide / 2; lanes > 0; lanes /= 2)
      value = merge(value, shuffle_xor(value, lanes));
    return value;
  }

  __device__ Held hold(const Rows<T>& rows, int64_t first) { return {rows, first}; }
  __device__ Held hold_second(const Rows<T>& rows, int64_t first) { return {rows, first}; }
  __device__ void stage(int slot, const Rows<T>& rows, int64_t first) {
    staged_[slot] = {rows, first};
  }

  /// Products of the held rows with the rows of a slot.
  __device__ void multiply(const Held& own, int slot, int depth, T (&products)[kRows][kColumns]) {
    T *a = memory_.pieces, *b = memory_.pieces + kPiece * kLine;
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j) products[i][j] = 0;
    for (int d = 0; d < depth; d += kPiece) {
      load_columns(own, d, a);
      load_columns(staged_[slot], d, b);
      __syncthreads();
#pragma unroll 4
      for (int l = 0; l < kPiece; ++l) {
        const auto left = pack(a + l * kLine + y_ * kPack);
        const auto right = pack(b + l * kLine + x_ * kPack);
#pragma unroll
        for (int i = 0; i < kRows; ++i)
#pragma unroll
          for (int j = 0; j < kColumns; ++j) products[i][j] += left.v[i] * right.v[j];
      }
      __syncthreads();
    }
  }

  /// Calls use(row, column, product) for each product.
  template <typename Use>
  __device__ void multiply_each(const Held& own, int slot, int depth, const Use& use) {
    T products[kRows][kColumns];
    multiply(own, slot, depth, products);
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j) use(i, j, products[i][j]);
  }

  __device__ static void clear(Sums& sums) {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int c = 0; c < kWidth / kSide; ++c) sums.part[i][c] = 0;
  }
  __device__ static void scale(Sums& sums, const T (&factors)[kRows]) {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int c = 0; c < kWidth / kSide; ++c) sums.part[i][c] *= factors[i];
  }

  /// Stores the weights with which add() multiplies the rows of a slot.
  __device__ void put(const T (&weights)[kRows][kColumns]) {
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      Pack<T, kPack> line;
#pragma unroll
      for (int i = 0; i < kRows; ++i) line.v[i] = weights[i][j];
      *reinterpret_cast<Pack<T, kPack>*>(memory_.weights + column(j) * kLine + y_ * kPack) = line;
    }
  }
  /// Computes sums += weights * rows of the slot.
  __device__ void add(Sums& sums, int slot, int) {
    for (int first = 0; first < kOther; first += kPiece) {
      load_rows(staged_[slot], first);
      __syncthreads();
#pragma unroll 4
      for (int l = 0; l < kPiece; ++l) {
        const auto weight = pack(memory_.weights + (first + l) * kLine + y_ * kPack);
#pragma unroll
        for (int c = 0; c < kWidth / kSide; c += kPack) {
          const auto value = pack(memory_.pieces + l * kWidth + c * kSide + x_ * kPack);
#pragma unroll
          for (int i = 0; i < kRows; ++i)
#pragma unroll
            for (int j = 0; j < kPack; ++j) sums.part[i][c + j] += weight.v[i] * value.v[j];
        }
      }
      __syncthreads();
    }
  }

  /// Writes the sums, multiplied by a factor for each row, to the block's rows, which start at
  /// `first`.
  __device__ void store(const Sums& sums, const T (&factors)[kRows], const Rows<T>& rows,
                        int64_t first, T* to) {
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const int64_t at = first + row(i);
      if (at >= rows.count) continue;
#pragma unroll
      for (int c = 0; c < kWidth / kSide; ++c) {
        const int number = c / kPack * kPack * kSide + x_ * kPack + c % kPack;
        if (number < rows.columns) to[at * rows.step + number] = sums.part[i][c] * factors[i];
      }
    }
  }

 private:
  __device__ static Pack<T, kPack> pack(const T* from) {
    return *reinterpret_cast<const Pack<T, kPack>*>(from);
  }
  __device__ static T element(const Rows<T>& rows, int64_t row, int column) {
    return row < rows.count && column < rows.columns ? rows.data[row * rows.step + column] : T(0);
  }
  /// Loads columns [column, column + kPiece) of a tile, each as a line.
  __device__ static void load_columns(const Held& tile, int column, T* to) {
    for (int i = int(threadIdx.x); i < kOwn * kPiece; i += kThreads) {
      const int l = i % kPiece, row = i / kPiece;
      to[l * kLine + row] = element(tile.rows, tile.first + row, column + l);
    }
  }
  /// Loads rows [row, row + kPiece) of a tile.
  __device__ void load_rows(const Held& tile, int row) {
    for (int i = int(threadIdx.x); i < kPiece * kWidth; i += kThreads)
      memory_.pieces[i] = element(tile.rows, tile.first + row + i / kWidth, i % kWidth);
  }

  Memory& memory_;
  Held staged_[2];
  int x_, y_;
};

}  // namespace tapegrad::backends::cuda::attention
