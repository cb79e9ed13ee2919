#include "backends/cpu/fast/conv_points.h"

#include <algorithm>
#include <type_traits>

#include "backends/cpu/fast/conv_small_weight.h"
#include "backends/cpu/tools/product.h"
#include "backends/cpu/tools/share.h"
#include "backends/cpu/tools/simd.h"
#include "backends/cpu/tools/transpose.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kSmallestBlock = 8;  // the smallest block of channels

bool is_product(const Shape& weight, const Conv2dOptions& options) {
  return weight[2] == 1 && weight[3] == 1 && options.groups == 1 && options.padding == Size2d(0);
}

bool is_multiple(const Shape& weight, int64_t of) {
  return weight[0] % of == 0 && weight[1] % of == 0;
}

/// Returns whether the products are preferred. If the channels fill no blocks, unpacking an operand
/// takes less than oneDNN's copies. If they fill no registers, the products take between a third
/// and nine tenths of oneDNN's time, unless an operand is packed already. With a stride, the copy
/// of the positions pays off if at least a sixth of oneDNN's blocks would be empty.
bool prefers_points(const Shape& weight, const Conv2dOptions& options, bool is_packed) {
  constexpr int64_t kRegister = 16;
  if (!is_product(weight, options)) return false;
  const auto in_registers = [](int64_t n) { return (n + kRegister - 1) / kRegister * kRegister; };
  if (options.stride != Size2d(1) &&
      5 * in_registers(weight[0]) * in_registers(weight[1]) < 6 * weight[0] * weight[1])
    return false;
  return !is_multiple(weight, kSmallestBlock) || (!is_multiple(weight, kRegister) && !is_packed);
}

/// Computes c = a b, or c += a b if `accumulate`; c has rows of n numbers.
void multiply_channels(int64_t m, int64_t n, int64_t k, Matrix<float> a, Matrix<float> b, float* c,
                       bool accumulate) {
  if (k <= kLongestSum) return gemm<float>(m, n, k, a, b, c, n, accumulate);
  multiply_blocks(m, n, k, a, b, c, n, accumulate ? Update::kAdd : Update::kStore);
}

void bias_gradient(const Tensor& dz, const Tensor& x, const Tensor& weight,
                   const Conv2dOptions& options, Tensor& db) {
  Tensor none;
  if (db) kernels::conv2d_backward(dz, {}, x, weight, options, none, none, db);
}

/// Calls copy(element of an image, position) for each row of the positions that a stride reads.
/// `image` is the shape of the images, and y that of the positions.
template <typename Copy>
void for_each_strided_row(const Shape& image, const Shape& y, Size2d stride, const Copy& copy) {
  const int64_t rows = y[2], planes = image[0] * image[1];
#pragma omp parallel for if (planes * rows * y[3] > kParallel)
  for (int64_t i = 0; i < planes * rows; ++i)
    copy((i / rows * image[2] + i % rows * stride.height) * image[3], i * y[3]);
}

/// Returns the positions of x that a kernel of size 1 reads; `y` is the shape of the result.
Tensor strided_positions(const Tensor& x, const Shape& y, Size2d stride) {
  const Tensor result = x.empty_like({x.shape()[0], x.shape()[1], y[2], y[3]});
  const float* from = x.data<float>();
  float* to = result.data<float>();
  for_each_strided_row(x.shape(), y, stride, [&](int64_t image, int64_t position) {
    for (int64_t j = 0; j < y[3]; ++j) to[position + j] = from[image + j * stride.width];
  });
  return result;
}

/// Writes the gradients of strided_positions() to dx, and zeros between them.
void spread_positions(const Tensor& gradients, Size2d stride, Tensor& dx) {
  std::fill_n(dx.data<float>(), dx.numel(), 0.0f);
  const float* from = gradients.data<float>();
  float* to = dx.data<float>();
  const int64_t width = gradients.shape()[3];
  for_each_strided_row(dx.shape(), gradients.shape(), stride, [&](int64_t image, int64_t position) {
    for (int64_t j = 0; j < width; ++j) to[image + j * stride.width] = from[position + j];
  });
}

/// Computes the gradients of a convolution of stride 1 of the positions.
void strided_gradients(const Tensor& dy, const Epilogue& behind, const Tensor& x,
                       const Tensor& weight, Size2d stride, Tensor& dx, Tensor& dw, Tensor& db) {
  const Shape& y = dy.shape();
  Tensor positions;
  if (dx) positions = dx.empty_like({y[0], dx.shape()[1], y[2], y[3]});
  kernels::conv2d_backward(dy, behind, dw ? strided_positions(x, y, stride) : Tensor(), weight, {},
                           positions, dw, db);
  if (dx) spread_positions(positions, stride, dx);
}

/// Returns the sizes of images whose rows have as many positions as the second-level cache holds.
RowSizes in_long_rows(const Shape& x, const Shape& weight) {
  int64_t rows = 1;
  while (rows < x[2] && (x[2] % rows != 0 || x[1] * x[2] / rows * x[3] > kPaddedFloats)) ++rows;
  if (x[2] % rows != 0) rows = x[2];
  const int64_t columns = x[2] / rows * x[3];
  return {{x[0], x[1], rows, columns}, weight, {x[0], weight[0], rows, columns}, {}};
}

/// Whether dw is faster as sums along rows than as products of matrices, which are inefficient for
/// few channels.
bool prefers_sums(const RowSizes& s) {
  constexpr int64_t kMostWeights = 4096;
  return s.in * s.out <= kMostWeights && 5 * in_lanes(s.out_width) <= 6 * s.out_width;
}

/// Computes dw, the sum over the images of products of dz and x. Pieces of the images, whose number
/// does not depend on the number of threads, have their own sums.
void weight_products(int64_t images, int64_t out, int64_t in, int64_t positions, const float* dz,
                     const float* x, float* dw) {
  constexpr int64_t kMostParts = 16, kMostSums = int64_t(1) << 20;
  const int64_t weights = out * in;
  const int64_t pieces = std::clamp<int64_t>(kMostSums / weights, 1, std::min(images, kMostParts));
  const Tensor parts = Tensor::empty({pieces - 1, weights}, f32);
  float* const others = parts.data<float>();
  const int64_t work = (images + pieces - 1) / pieces * weights * positions;
  share_products(pieces, std::min(work, kParallelProduct), [&](int64_t piece) {
    float* to = piece == 0 ? dw : others + (piece - 1) * weights;
    const int64_t first = piece * images / pieces, end = (piece + 1) * images / pieces;
    for (int64_t n = first; n < end; ++n)
      multiply_channels(out, in, positions, {dz + n * out * positions, positions, 1},
                        {x + n * in * positions, 1, positions}, to, /*accumulate=*/n > first);
  });
  for (int64_t piece = 1; piece < pieces; ++piece)
    for (int64_t i = 0; i < weights; ++i) dw[i] += others[(piece - 1) * weights + i];
}

/// Whether one product of the positions of several images is faster than one product per image,
/// whose rows do not fill a register.
bool are_short(int64_t images, int64_t positions, int64_t in, int64_t out) {
  constexpr int64_t kFewPositions = 16, kVeryFewPositions = 4, kFewestImages = 16;
  constexpr int64_t kFewestWeights = 2048;
  return images >= kFewestImages && (positions <= kVeryFewPositions ||
                                     (positions <= kFewPositions && in * out >= kFewestWeights));
}

/// Whether the positions of an image are one or two whole registers.
bool fill_registers(int64_t positions) {
  constexpr int64_t kMostPositions = 16;
  return positions % kLanes<float> == 0 && positions <= kMostPositions;
}

/// Computes kRows rows of one register: y[r] = start[r] + the sum of a[j * pitch + r] * x[j] for j
/// in [0, count). The rows of x and y are `positions` elements apart. A null `start` is zeros.
template <int kRows>
void multiply_rows(int64_t count, const float* a, int64_t pitch, const float* x, int64_t positions,
                   const float* start, float* y) {
  using B = Batch<float>;
  B sums[kRows];
  unrolled<kRows>([&](auto r) { sums[r()] = B(start != nullptr ? start[r()] : 0.0f); });
  for (int64_t j = 0; j < count; ++j, a += pitch, x += positions) {
    const B values = B::load_unaligned(x);
    unrolled<kRows>([&](auto r) { sums[r()] = xsimd::fma(values, B(a[r()]), sums[r()]); });
  }
  unrolled<kRows>([&](auto r) { sums[r()].store_unaligned(y + r() * positions); });
}

/// Computes y = start + the transpose of a [count, rows] times x [count, positions] for each image.
void multiply_images(int64_t images, int64_t rows, int64_t count, const float* a, const float* x,
                     int64_t positions, const float* start, float* y) {
  constexpr int kMost = kLanes<float> >= 16 ? 24 : 12;  // sums that registers hold
  share_products(images, rows * count * positions, [&](int64_t n) {
    const float* from = x + n * count * positions;
    float* to = y + n * rows * positions;
    int64_t r = 0;
    const auto run = [&]<int kRows>(std::integral_constant<int, kRows>) {
      for (; rows - r >= kRows; r += kRows)
        for (int64_t at = 0; at < positions; at += kLanes<float>)
          multiply_rows<kRows>(count, a + r, rows, from + at, positions,
                               start != nullptr ? start + r : nullptr, to + r * positions + at);
    };
    run(std::integral_constant<int, kMost>());
    run(std::integral_constant<int, 8>());
    run(std::integral_constant<int, 4>());
    run(std::integral_constant<int, 1>());
  });
}

/// Images as matrices [images * positions, channels], for as many images at a time as fit into the
/// second-level cache.
struct Chunks {
  int64_t images, positions, in, out;

  int64_t images_at_once() const {
    constexpr int64_t kElements = int64_t(1) << 18;
    return std::clamp<int64_t>(kElements / (positions * std::max(in, out)), 1, images);
  }
  int64_t number() const { return (images + images_at_once() - 1) / images_at_once(); }
  /// Calls run(first image, rows) for a chunk.
  template <typename Run>
  void with(int64_t chunk, const Run& run) const {
    const int64_t first = chunk * images_at_once();
    run(first, std::min(images_at_once(), images - first) * positions);
  }
  /// Returns the rows of images from `first` on.
  Tensor to_rows(const float* x, int64_t channels, int64_t first, int64_t rows) const {
    const Tensor copy = Tensor::empty({rows, channels}, f32);
    x += first * channels * positions;
    for (int64_t at = 0; at < rows * channels; at += channels * positions)
      copy_transposed(channels, positions, x + at, positions, copy.data<float>() + at, channels);
    return copy;
  }
  void from_rows(const Tensor& matrix, float* x, int64_t first) const {
    const int64_t rows = matrix.shape()[0], channels = matrix.shape()[1];
    x += first * channels * positions;
    for (int64_t at = 0; at < rows * channels; at += channels * positions)
      copy_transposed(positions, channels, matrix.data<float>() + at, channels, x + at, positions);
  }
};

}  // namespace

bool ConvPoints::accepts(const Tensor& x, const Tensor& weight, const Tensor&,
                         const Conv2dOptions& options, const Epilogue&, const Tensor& y) {
  if (x.numel() == 0 || y.numel() == 0) return false;
  return prefers_points(weight.shape(), options, x.storage().is_packed());
}

void ConvPoints::run(TypeTag<float>, const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const Conv2dOptions& options, const Epilogue& epilogue, Tensor& y) {
  if (options.stride != Size2d(1))
    return kernels::conv2d(strided_positions(x, y.shape(), options.stride), weight, bias, {},
                           epilogue, y);
  const int64_t out = weight.shape()[0], in = weight.shape()[1];
  const int64_t positions = x.shape()[2] * x.shape()[3];
  const float *from = x.data<float>(), *w = weight.data<float>();
  const float* start = bias ? bias.data<float>() : nullptr;
  float* results = y.data<float>();
  if (fill_registers(positions)) {
    const Tensor turned = Tensor::empty({in, out}, f32);
    copy_transposed(out, in, w, in, turned.data<float>(), out);
    multiply_images(x.shape()[0], out, in, turned.data<const float>(), from, positions, start,
                    results);
    return kernels::run_epilogue(epilogue, y, y);
  }
  if (are_short(x.shape()[0], positions, in, out)) {
    const Chunks chunks{x.shape()[0], positions, in, out};
    share_products(chunks.number(), chunks.images_at_once() * positions * in * out, [&](int64_t i) {
      chunks.with(i, [&](int64_t first, int64_t rows) {
        Tensor to = Tensor::empty({rows, out}, f32);
        for (int64_t row = 0; row < rows && start != nullptr; ++row)
          std::copy_n(start, out, to.data<float>() + row * out);
        const Tensor here = chunks.to_rows(from, in, first, rows);
        multiply_channels(rows, out, in, {here.data<float>(), in, 1}, {w, 1, in}, to.data<float>(),
                          /*accumulate=*/start != nullptr);
        chunks.from_rows(to, results, first);
      });
    });
    return kernels::run_epilogue(epilogue, y, y);
  }
  share_products(x.shape()[0], out * in * positions, [&](int64_t n) {
    float* to = results + n * out * positions;
    if (start != nullptr)
      for (int64_t o = 0; o < out; ++o) std::fill_n(to + o * positions, positions, start[o]);
    multiply_channels(out, positions, in, {w, in, 1}, {from + n * in * positions, positions, 1}, to,
                      /*accumulate=*/start != nullptr);
  });
  kernels::run_epilogue(epilogue, y, y);
}

bool ConvBackwardPoints::accepts(const Tensor& dy, const Epilogue&, const Tensor& x,
                                 const Tensor& weight, const Conv2dOptions& options,
                                 const Tensor& dx, const Tensor& dw, const Tensor&) {
  if (!(dx || dw) || dy.numel() == 0 || (dx && dx.numel() == 0) || (dw && dw.numel() == 0))
    return false;
  return prefers_points(dw ? dw.shape() : weight.shape(), options,
                        dy.storage().is_packed() || (x && x.storage().is_packed()));
}

void ConvBackwardPoints::run(TypeTag<float>, const Tensor& dy, const Epilogue& behind,
                             const Tensor& x, const Tensor& weight, const Conv2dOptions& options,
                             Tensor& dx, Tensor& dw, Tensor& db) {
  if (options.stride != Size2d(1))
    return strided_gradients(dy, behind, x, weight, options.stride, dx, dw, db);
  Tensor dz = dy;
  kernels::run_epilogue_backward(behind, dy, dz);
  const Shape& w = dw ? dw.shape() : weight.shape();
  const int64_t out = w[0], in = w[1], positions = dy.shape()[2] * dy.shape()[3];
  const int64_t images = dy.shape()[0];
  const float* gradients = dz.data<float>();
  const bool fills_registers = fill_registers(positions);
  if (dx && fills_registers)
    multiply_images(images, in, out, weight.data<const float>(), gradients, positions, nullptr,
                    dx.data<float>());
  const RowSizes sizes = in_long_rows({images, in, dy.shape()[2], dy.shape()[3]}, w);
  const bool sums_weights = dw && prefers_sums(sizes);
  if (sums_weights)
    small_weight_gradient(sizes, gradients, nullptr, x.data<float>(), dw.data<float>(),
                          db ? db.data<float>() : nullptr);
  const bool multiplies_weights = dw && !sums_weights;
  if ((multiplies_weights || (dx && !fills_registers)) && are_short(images, positions, in, out)) {
    const Chunks chunks{images, positions, in, out};
    for (int64_t i = 0; i < chunks.number(); ++i)
      chunks.with(i, [&](int64_t first, int64_t rows) {
        const Tensor here = chunks.to_rows(gradients, out, first, rows);
        if (dx && !fills_registers) {
          const Tensor to = Tensor::empty({rows, in}, f32);
          multiply_channels(rows, in, out, {here.data<float>(), out, 1},
                            {weight.data<float>(), in, 1}, to.data<float>(), /*accumulate=*/false);
          chunks.from_rows(to, dx.data<float>(), first);
        }
        if (multiplies_weights)
          multiply_channels(out, in, rows, {here.data<float>(), 1, out},
                            {chunks.to_rows(x.data<float>(), in, first, rows).data<float>(), in, 1},
                            dw.data<float>(), /*accumulate=*/i > 0);
      });
    if (!sums_weights) bias_gradient(dz, x, weight, options, db);
    return;
  }
  if (dx && !fills_registers) {
    const float* factors = weight.data<float>();
    float* to = dx.data<float>();
    share_products(images, out * in * positions, [&](int64_t n) {
      multiply_channels(in, positions, out, {factors, 1, in},
                        {gradients + n * out * positions, positions, 1}, to + n * in * positions,
                        /*accumulate=*/false);
    });
  }
  if (multiplies_weights)
    weight_products(images, out, in, positions, gradients, x.data<float>(), dw.data<float>());
  if (!sums_weights) bias_gradient(dz, x, weight, options, db);
}

}  // namespace tapegrad::backends::cpu
