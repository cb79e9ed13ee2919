// Attention tiles by tensor cores, for sixteen-bit floats. attention.cuh explains tiles.
//
// A warp owns 16 rows and multiplies fragments of 16 x 16 elements. The mapping of fragment
// elements to lanes is unspecified (CUDA C++ Programming Guide, "Warp Matrix Functions"), so scores
// pass through shared memory for the softmax, and so do the factors that scale rows of the sums.
#pragma once

#include <mma.h>

#include "backends/cuda/device/attention_problem.cuh"
#include "backends/cuda/device/team.cuh"

namespace tapegrad::backends::cuda::attention {

namespace wmma = nvcuda::wmma;

template <typename T>
using TensorCoreElement = std::conditional_t<std::is_same_v<T, float16>, __half, __nv_bfloat16>;

template <typename Use, typename E, typename Layout>
using Fragment = wmma::fragment<Use, 16, 16, 16, E, Layout>;

/// Whether the target architecture multiplies such elements; bfloat16 requires compute capability
/// 8.0.
template <typename E>
inline constexpr bool kHasFragments = requires {
  sizeof(Fragment<wmma::matrix_a, E, wmma::row_major>);
};

/// With kTwo, a block holds rows of two operands.
template <typename T, int kWidth, bool kTwo>
class TensorCoreTiles {
  using E = TensorCoreElement<T>;
  static constexpr int kSide = 16;  // side of a fragment
  static constexpr int kWarps = 4;
  static constexpr int kParts = kWidth / kSide;
  /// Blocks of columns that are multiplied at a time. More of them exceed the registers.
  static constexpr int kUnrolled = kTwo ? 2 : 4;
  static constexpr int kLine = kWidth + kEight;  // longer than a row, to avoid bank conflicts

 public:
  static constexpr bool kExists = kHasFragments<E>;
  static constexpr int kThreads = kWarps * kWarp;
  static constexpr int kBlocks = kWidth <= 64 ? 3 : 2;  // blocks for which a multiprocessor has
                                                        // registers
  /// A block uses at most 48 KB of shared memory.
  static constexpr int kOwn = kWarps * kSide, kOther = kWidth <= 64 ? 64 : 32;
  /// Two lanes share a row.
  static constexpr int kRows = 1, kColumns = kOther / 2;

 private:
  static constexpr int kScoreLine = kOther + 4, kWeightLine = kOther + kEight;
  static constexpr int kWeightBytes = kSide * kWeightLine * int(sizeof(T));

 public:
  struct alignas(32) Memory {
    T staged[2 * kOther * kLine];
    T second[kTwo ? kOwn * kLine : kSide];
    /// Scratch memory of each warp: scores; after they are read, weights followed by factors.
    alignas(32) unsigned char scratch[kWarps][kSide * kScoreLine * sizeof(float)];
  };
  static_assert(sizeof(Memory) <= 48 * 1024);
  static_assert(2 * kOther >= kOwn);
  static_assert(kWeightBytes + kSide * kSide * int(sizeof(float)) <=
                int(sizeof(Memory::scratch[0])));

  using Left = Fragment<wmma::matrix_a, E, wmma::row_major>;
  using Accumulator = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

  /// The warp's rows of an operand, in registers.
  struct Held {
    Left parts[kParts];
    __device__ const Left& operator()(int k) const { return parts[k]; }
  };
  /// The warp's rows of the second operand, in shared memory.
  struct SecondHeld {
    const E* rows;
    __device__ Left operator()(int k) const {
      Left part;
      wmma::load_matrix_sync(part, rows + k * kSide, kLine);
      return part;
    }
  };
  struct Sums {
    Accumulator part[kParts];
  };

  __device__ explicit TensorCoreTiles(Memory& memory)
      : memory_(memory),
        warp_(int(threadIdx.x) / kWarp),
        row_(int(threadIdx.x) % kSide),
        half_(int(threadIdx.x) % kWarp / kSide) {}

  __device__ int row(int) const { return warp_ * kSide + row_; }
  __device__ int column(int j) const { return half_ * kColumns + j; }
  /// Returns whether this thread represents the threads that share its rows.
  __device__ bool is_first() const { return half_ == 0; }
  template <typename Merge>
  __device__ static float across(float value, const Merge& merge) {
    return merge(value, shuffle_xor(value, kSide));
  }

  __device__ Held hold(const Rows<T>& rows, int64_t first) {
    load<kOwn>(rows, first, memory_.staged);
    __syncthreads();
    Held held;
#pragma unroll
    for (int k = 0; k < kParts; ++k)
      wmma::load_matrix_sync(held.parts[k],
                             elements(memory_.staged) + warp_ * kSide * kLine + k * kSide, kLine);
    __syncthreads();
    return held;
  }
  __device__ SecondHeld hold_second(const Rows<T>& rows, int64_t first) {
    static_assert(kTwo);
    load<kOwn>(rows, first, memory_.second);
    __syncthreads();
    return {elements(memory_.second) + warp_ * kSide * kLine};
  }
  __device__ void stage(int slot, const Rows<T>& rows, int64_t first) {
    load<kOther>(rows, first, memory_.staged + slot * kOther * kLine);
  }

  /// Products of the held rows with the rows of a slot.
  template <typename Own>
  __device__ void multiply(const Own& own, int slot, int depth,
                           float (&products)[kRows][kColumns]) {
    multiply_each(own, slot, depth, [&](int, int j, float product) { products[0][j] = product; });
  }
  /// Calls use(row, column, product) for each product.
  template <typename Own, typename Use>
  __device__ void multiply_each(const Own& own, int slot, int depth, const Use& use) {
#pragma unroll kUnrolled
    for (int n = 0; n < kOther / kSide; ++n) {
      Accumulator sum;
      wmma::fill_fragment(sum, 0.0f);
#pragma unroll
      for (int k = 0; k < kParts; ++k) {
        if (k * kSide >= depth) continue;
        Fragment<wmma::matrix_b, E, wmma::col_major> right;
        wmma::load_matrix_sync(right, tile(slot) + n * kSide * kLine + k * kSide, kLine);
        wmma::mma_sync(sum, own(k), right, sum);
      }
      wmma::store_matrix_sync(scores() + n * kSide, sum, kScoreLine, wmma::mem_row_major);
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j < kColumns; j += 4) {
      const auto four =
          *reinterpret_cast<const Pack<float, 4>*>(scores() + row_ * kScoreLine + column(j));
#pragma unroll
      for (int l = 0; l < 4; ++l) use(0, j + l, four.v[l]);
    }
    __syncwarp();
  }

  __device__ static void clear(Sums& sums) {
#pragma unroll
    for (int k = 0; k < kParts; ++k) wmma::fill_fragment(sums.part[k], 0.0f);
  }
  __device__ void scale(Sums& sums, const float (&factors)[kRows]) {
    if (!__any_sync(kAllLanes, factors[0] != 1)) return;
    float* matrix = reinterpret_cast<float*>(scratch() + kWeightBytes);
#pragma unroll
    for (int c = 0; c < kSide / 2; ++c) matrix[row_ * kSide + half_ * kSide / 2 + c] = factors[0];
    __syncwarp();
    Accumulator factor;
    wmma::load_matrix_sync(factor, matrix, kSide, wmma::mem_row_major);
#pragma unroll
    for (int k = 0; k < kParts; ++k)
#pragma unroll
      for (int i = 0; i < Accumulator::num_elements; ++i) sums.part[k].x[i] *= factor.x[i];
  }

  /// Stores the weights with which add() multiplies the rows of a slot.
  __device__ void put(const float (&weights)[kRows][kColumns]) {
#pragma unroll
    for (int j = 0; j < kColumns; j += kEight) {
      Pack<T, kEight> eight;
#pragma unroll
      for (int l = 0; l < kEight; ++l) eight.v[l] = narrow<T>(weights[0][j + l]);
      *reinterpret_cast<Pack<T, kEight>*>(this->weights() + row_ * kWeightLine + column(j)) = eight;
    }
    __syncwarp();
  }
  /// Computes sums += weights * rows of the slot.
  __device__ void add(Sums& sums, int slot, int columns) {
#pragma unroll
    for (int k = 0; k < kOther / kSide; ++k) {
      Left left;
      wmma::load_matrix_sync(left, elements(weights()) + k * kSide, kWeightLine);
#pragma unroll
      for (int n = 0; n < kParts; ++n) {
        if (n * kSide >= columns) continue;
        Fragment<wmma::matrix_b, E, wmma::row_major> right;
        wmma::load_matrix_sync(right, tile(slot) + k * kSide * kLine + n * kSide, kLine);
        wmma::mma_sync(sums.part[n], left, right, sums.part[n]);
      }
    }
  }

  /// Writes the sums, multiplied by a factor for each row, to the block's rows, which start at
  /// `first`.
  __device__ void store(const Sums& sums, const float (&factors)[kRows], const Rows<T>& rows,
                        int64_t first, T* to) {
    const int64_t at = first + row(0);
#pragma unroll
    for (int n = 0; n < kParts; n += kOther / kSide) {
      if (n * kSide >= rows.columns) continue;
      __syncwarp();  // the previous content of the scratch memory has been read
#pragma unroll
      for (int k = 0; k < kOther / kSide; ++k)
        wmma::store_matrix_sync(scores() + k * kSide, sums.part[n + k], kScoreLine,
                                wmma::mem_row_major);
      __syncwarp();
      if (at >= rows.count) continue;
      for (int j = 0; j < kColumns; j += kEight) {
        const int number = n * kSide + column(j);
        const float* from = scores() + row_ * kScoreLine + column(j);
        Pack<T, kEight> eight;
#pragma unroll
        for (int l = 0; l < kEight; ++l) eight.v[l] = narrow<T>(from[l] * factors[0]);
        T* place = to + at * rows.step + number;
        if (rows.in_eights && number < rows.columns) {
          *reinterpret_cast<Pack<T, kEight>*>(place) = eight;
        } else {
#pragma unroll
          for (int l = 0; l < kEight; ++l)
            if (number + l < rows.columns) place[l] = eight.v[l];
        }
      }
    }
  }

 private:
  __device__ static const E* elements(const T* x) { return reinterpret_cast<const E*>(x); }
  __device__ const E* tile(int slot) const {
    return elements(memory_.staged + slot * kOther * kLine);
  }
  __device__ unsigned char* scratch() const { return memory_.scratch[warp_]; }
  __device__ float* scores() const { return reinterpret_cast<float*>(scratch()); }
  __device__ T* weights() const { return reinterpret_cast<T*>(scratch()); }

  /// Loads kCount rows, starting at `first`; missing rows are zeros.
  template <int kCount>
  __device__ static void load(const Rows<T>& rows, int64_t first, T* to) {
    constexpr int kPacks = kWidth / kEight;
    for (int i = int(threadIdx.x); i < kCount * kPacks; i += kThreads) {
      const int row = i / kPacks, column = i % kPacks * kEight;
      Pack<T, kEight> eight = {};
      if (first + row < rows.count && column < rows.columns) {
        const T* from = rows.data + (first + row) * rows.step + column;
        if (rows.in_eights) {
          eight = *reinterpret_cast<const Pack<T, kEight>*>(from);
        } else {
#pragma unroll
          for (int l = 0; l < kEight; ++l)
            if (column + l < rows.columns) eight.v[l] = from[l];
        }
      }
      *reinterpret_cast<Pack<T, kEight>*>(to + row * kLine + column) = eight;
    }
  }

  Memory& memory_;
  int warp_, row_, half_;
};

}  // namespace tapegrad::backends::cuda::attention
