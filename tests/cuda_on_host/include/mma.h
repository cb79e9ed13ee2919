// The part of CUDA's <mma.h> that the backend uses: 16 x 16 x 16 matrix products of 16-bit floats
// by the lanes of a warp, summed in float. Checks the requirements of a GPU: pointers aligned to 32
// bytes, strides in multiples of 16, and identical calls by all lanes.
//
// The assignment of elements to lanes is unspecified in CUDA, and therefore scrambled here.
// Elements of operands, whose position a program could only guess, are not accessible.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace nvcuda::wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

template <typename Use, int kM, int kN, int kK, typename T, typename Layout = void>
class fragment;

}  // namespace nvcuda::wmma

namespace coh {

inline constexpr int kSide = 16, kPerLane = kSide * kSide / 32;
inline float number(__half x) { return __half2float(x); }
inline float number(__nv_bfloat16 x) { return __bfloat162float(x); }
inline float number(float x) { return x; }

/// A lane's part of a matrix; NaN until it is written.
template <int kFactor>
struct Part {
  float values[kPerLane];

  Part() { poison(values, sizeof(values)); }
  /// Position, row * 16 + column, of a lane's element i.
  static int place(unsigned lane, int i) {
    return (int(lane) * kPerLane + i) * kFactor % (kSide * kSide);
  }
};

/// Arguments in which the lanes of a warp must agree.
struct WarpCall {
  const void* memory;
  unsigned step, what;
};
inline void meet(const WarpCall& call) {
  if (blockDim.x * blockDim.y * blockDim.z % 32 != 0) fail("a matrix for a part of a warp");
  const Exchange& e = exchange(Op::kShuffle, ~0u, 0, &call, sizeof(call));
  if (std::memcmp(e.out, &call, sizeof(call)) != 0) fail("the lanes' calls for a matrix differ");
}
template <typename T>
void check_place(const T* memory, unsigned step) {
  if (reinterpret_cast<std::uintptr_t>(memory) % 32 != 0)
    fail("a matrix does not lie at a multiple of 32 bytes");
  if (step * sizeof(T) % 16 != 0 || step < unsigned(kSide))
    fail("the step of a matrix is no multiple of 16 bytes, or too short");
}

/// Each lane reads before it synchronises with the others, so that a missing barrier after their
/// writes is detected.
template <int kFactor, typename T>
void load(Part<kFactor>& part, const T* memory, unsigned step, bool by_rows) {
  check_place(memory, step);
  for (int i = 0; i < kPerLane; ++i) {
    const int place = part.place(lane_id(), i), row = place / kSide, column = place % kSide;
    T element;
    std::memcpy(&element, memory + (by_rows ? row * int(step) + column : column * int(step) + row),
                sizeof(T));
    part.values[i] = number(element);
  }
  meet({memory, step, by_rows ? 1u : 2u});
}

struct Matrix {
  float at[kSide * kSide];
};
template <int kFactor>
Matrix gathered(const void* const (&lanes)[32]) {
  Matrix m;
  for (unsigned lane = 0; lane < 32; ++lane)
    for (int i = 0; i < kPerLane; ++i)
      m.at[Part<kFactor>::place(lane, i)] =
          static_cast<const Part<kFactor>*>(lanes[lane])->values[i];
  return m;
}

/// The lanes' parts of a product in progress.
struct Product {
  const void *a[32], *b[32], *c[32];
  void* d[32];
};
inline Product products[32];  // one per warp of the block

}  // namespace coh

namespace nvcuda::wmma {

template <typename T, typename Layout>
class fragment<matrix_a, 16, 16, 16, T, Layout> {
 public:
  coh::Part<37> part;
};
template <typename T, typename Layout>
class fragment<matrix_b, 16, 16, 16, T, Layout> {
 public:
  coh::Part<91> part;
};
template <>
class fragment<accumulator, 16, 16, 16, float> {
 public:
  static constexpr int num_elements = coh::kPerLane;
  coh::Part<141> part;
  float (&x)[num_elements] = part.values;

  fragment() = default;
  fragment(const fragment& other) : part(other.part) {}
  fragment& operator=(const fragment& other) {
    part = other.part;
    return *this;
  }
};
using Sums = fragment<accumulator, 16, 16, 16, float>;

inline void fill_fragment(Sums& sums, float value) {
  for (float& x : sums.x) x = value;
}

template <typename Use, typename T, typename Layout>
void load_matrix_sync(fragment<Use, 16, 16, 16, T, Layout>& to, const T* memory, unsigned step) {
  coh::load(to.part, memory, step, std::is_same_v<Layout, row_major>);
}
inline void load_matrix_sync(Sums& to, const float* memory, unsigned step, layout_t layout) {
  coh::load(to.part, memory, step, layout == mem_row_major);
}

inline void store_matrix_sync(float* memory, const Sums& from, unsigned step, layout_t layout) {
  coh::check_place(memory, step);
  coh::meet({memory, step, 3 + unsigned(layout)});
  for (int i = 0; i < Sums::num_elements; ++i) {
    const int place = from.part.place(coh::lane_id(), i), row = place / coh::kSide,
              column = place % coh::kSide;
    memory[layout == mem_row_major ? row * int(step) + column : column * int(step) + row] =
        from.x[i];
  }
}

/// d = a b + c, computed by one lane for all.
template <typename T, typename LayoutA, typename LayoutB>
void mma_sync(Sums& d, const fragment<matrix_a, 16, 16, 16, T, LayoutA>& a,
              const fragment<matrix_b, 16, 16, 16, T, LayoutB>& b, const Sums& c) {
  const unsigned lane = coh::lane_id();
  coh::Product& product = coh::products[threadIdx.x / 32];  // for one-dimensional blocks
  product.a[lane] = &a.part;
  product.b[lane] = &b.part;
  product.c[lane] = &c.part;
  product.d[lane] = &d.part;
  coh::meet({nullptr, 0, 5});
  if (lane == 0) {
    const coh::Matrix left = coh::gathered<37>(product.a), right = coh::gathered<91>(product.b);
    coh::Matrix sum = coh::gathered<141>(product.c);
    for (int i = 0; i < coh::kSide; ++i)
      for (int k = 0; k < coh::kSide; ++k)
        for (int j = 0; j < coh::kSide; ++j)
          sum.at[i * coh::kSide + j] += left.at[i * coh::kSide + k] * right.at[k * coh::kSide + j];
    for (unsigned l = 0; l < 32; ++l)
      for (int i = 0; i < coh::kPerLane; ++i)
        static_cast<coh::Part<141>*>(product.d[l])->values[i] = sum.at[coh::Part<141>::place(l, i)];
  }
  coh::meet({nullptr, 0, 6});
}

}  // namespace nvcuda::wmma
