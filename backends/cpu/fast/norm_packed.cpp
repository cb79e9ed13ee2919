#include "backends/cpu/fast/norm_packed.h"

#include <algorithm>
#include <type_traits>
#include <vector>

#include "backends/cpu/tools/lanes.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kRowsInFloat = 256;  // rows summed in float before sums are joined in double

template <typename Run>
void with_block(const Packing& p, const Run& run) {
  if (p.block == 16)
    run(std::integral_constant<int, 16>());
  else
    run(std::integral_constant<int, 8>());
}

/// Calls run(image, first channel, offset of the block, rows) for image blocks in any order.
template <typename Run>
void for_each_image_block(const Packing& p, const Run& run) {
  const int64_t blocks = p.channels / p.block;
#pragma omp parallel for
  for (int64_t i = 0; i < p.batch * blocks; ++i)
    run(i / blocks, i % blocks * p.block, i * p.size * p.block, p.size);
}

/// Calls run(element, count) for pieces of up to kRowsInFloat rows.
template <int kBlock, typename Run>
void for_each_piece(int64_t offset, int64_t rows, const Run& run) {
  for (int64_t first = 0; first < rows; first += kRowsInFloat)
    run(offset + first * kBlock, std::min(kRowsInFloat, rows - first) * kBlock);
}

/// Sums of the parts of each channel, in the order of the images and their parts.
template <typename Part>
void add_parts(const std::vector<Part>& parts, int64_t channels, double* sums) {
  for (size_t i = 0; i < parts.size(); ++i) sums[int64_t(i) % channels] += double(parts[i]);
}

}  // namespace

template <typename T>
void image_sums_packed(const PackedValues& x, double* sums) {
  const Packing& p = x.packing;
  with_block(p, [&]<int kBlock>(std::integral_constant<int, kBlock>) {
    const T* from = data<T>(x);
    for_each_image_block(p, [&](int64_t image, int64_t channel, int64_t offset, int64_t rows) {
      double part[kBlock] = {};
      for_each_piece<kBlock>(offset, rows, [&](int64_t at, int64_t n) {
        float buffer[kRowsInFloat * kBlock];
        const float* values = load_values(from + at, 1, n, buffer);
        for (int64_t i = 0; i < n; i += kBlock)
          for (int k = 0; k < kBlock; ++k) part[k] += double(values[i + k]);
      });
      std::copy_n(part, kBlock, sums + image * p.channels + channel);
    });
  });
}

template <typename T>
void image_squares_packed(const PackedValues& x, const double* mean, double* squares) {
  const Packing& p = x.packing;
  with_block(p, [&]<int kBlock>(std::integral_constant<int, kBlock>) {
    const T* from = data<T>(x);
    for_each_image_block(p, [&](int64_t image, int64_t channel, int64_t offset, int64_t rows) {
      double part[kBlock] = {}, centre[kBlock];
      std::copy_n(mean + image * p.channels + channel, kBlock, centre);
      for_each_piece<kBlock>(offset, rows, [&](int64_t at, int64_t n) {
        float buffer[kRowsInFloat * kBlock];
        const float* values = load_values(from + at, 1, n, buffer);
        for (int64_t i = 0; i < n; i += kBlock)
          for (int k = 0; k < kBlock; ++k) {
            const double d = double(values[i + k]) - centre[k];
            part[k] += d * d;
          }
      });
      std::copy_n(part, kBlock, squares + image * p.channels + channel);
    });
  });
}

PackedValues as_one_image(const PackedValues& x) {
  PackedValues y = x;
  y.packing.batch = 1, y.packing.channels = x.packing.batch * x.packing.channels;
  return y;
}

template <typename T>
void channel_moments_packed(const PackedValues& x, float* mean, float* var) {
  const Packing& p = x.packing;
  const double count = double(p.batch * p.size);
  std::vector<double> parts(size_t(p.batch * p.channels)), sums(size_t(p.channels)),
      squares(size_t(p.channels)), means;
  image_sums_packed<T>(x, parts.data());
  add_parts(parts, p.channels, sums.data());
  for (double& sum : sums) sum /= count;
  for (int64_t image = 0; image < p.batch; ++image)
    means.insert(means.end(), sums.begin(), sums.end());
  image_squares_packed<T>(x, means.data(), parts.data());
  add_parts(parts, p.channels, squares.data());
  for (int64_t c = 0; c < p.channels; ++c) {
    mean[c] = float(sums[size_t(c)]);
    var[c] = float(squares[size_t(c)] / count);
  }
}

template <typename T>
void normalize_pixels(int64_t block, int64_t pixels, const T* x, const float* mean,
                      const float* scale, const float* shift, T* y) {
  with_block({0, 0, 0, block, nullptr}, [&]<int kBlock>(std::integral_constant<int, kBlock>) {
    float m[kBlock], s[kBlock], b[kBlock];
    std::copy_n(mean, kBlock, m);
    std::copy_n(scale, kBlock, s);
    std::copy_n(shift, kBlock, b);
    for_each_piece<kBlock>(0, pixels, [&](int64_t at, int64_t n) {
      float x_buffer[kRowsInFloat * kBlock], y_buffer[kRowsInFloat * kBlock];
      const float* xs = load_values(x + at, 1, n, x_buffer);
      float* to = place_values(y + at, y_buffer);
      for (int64_t i = 0; i < n; i += kBlock)
        for (int k = 0; k < kBlock; ++k) to[i + k] = (xs[i + k] - m[k]) * s[k] + b[k];
      store_values(to, n, y + at);
    });
  });
}

template <typename T>
void normalize_packed(const PackedValues& x, const float* mean, const float* scale,
                      const float* shift, T* y) {
  const T* from = data<T>(x);
  for_each_image_block(x.packing, [&](int64_t, int64_t channel, int64_t offset, int64_t rows) {
    normalize_pixels(x.packing.block, rows, from + offset, mean + channel, scale + channel,
                     shift + channel, y + offset);
  });
}

template <typename T>
void channel_sums_packed(const PackedValues& x, const PackedValues& dy, const float* mean,
                         const float* invstd, double* sums, double* products) {
  const Packing& p = x.packing;
  const int64_t pieces = (p.size + kRowsInFloat - 1) / kRowsInFloat;  // of an image
  std::vector<float> sum_parts(size_t(p.batch * pieces * p.channels)), product_parts(sum_parts);
  with_block(p, [&]<int kBlock>(std::integral_constant<int, kBlock>) {
    const T *from_x = data<T>(x), *from_dy = data<T>(dy);
    for_each_image_block(p, [&](int64_t image, int64_t channel, int64_t offset, int64_t rows) {
      float m[kBlock], v[kBlock];
      std::copy_n(mean + channel, kBlock, m);
      std::copy_n(invstd + channel, kBlock, v);
      int64_t part = image * pieces * p.channels + channel;
      for_each_piece<kBlock>(offset, rows, [&](int64_t at, int64_t n) {
        float x_buffer[kRowsInFloat * kBlock], dy_buffer[kRowsInFloat * kBlock];
        const float* xs = load_values(from_x + at, 1, n, x_buffer);
        const float* dys = load_values(from_dy + at, 1, n, dy_buffer);
        float sum[kBlock] = {}, product[kBlock] = {};
        for (int64_t i = 0; i < n; i += kBlock)
          for (int k = 0; k < kBlock; ++k) {
            sum[k] += dys[i + k];
            product[k] += dys[i + k] * ((xs[i + k] - m[k]) * v[k]);
          }
        std::copy_n(sum, kBlock, &sum_parts[size_t(part)]);
        std::copy_n(product, kBlock, &product_parts[size_t(part)]);
        part += p.channels;
      });
    });
  });
  add_parts(sum_parts, p.channels, sums);
  add_parts(product_parts, p.channels, products);
}

template <typename T, typename Formula>
static void gradient_packed(const PackedValues& x, const PackedValues& dy, const float* mean,
                            const float* scale, const float* shift, const float* slope, T* dx,
                            const Formula& formula) {
  with_block(x.packing, [&]<int kBlock>(std::integral_constant<int, kBlock>) {
    const T *from_x = data<T>(x), *from_dy = data<T>(dy);
    for_each_image_block(x.packing, [&](int64_t, int64_t channel, int64_t offset, int64_t rows) {
      float m[kBlock], s[kBlock], b[kBlock], slopes[kBlock];
      std::copy_n(mean + channel, kBlock, m);
      std::copy_n(scale + channel, kBlock, s);
      std::copy_n(shift + channel, kBlock, b);
      std::copy_n(slope + channel, kBlock, slopes);
      for_each_piece<kBlock>(offset, rows, [&](int64_t at, int64_t n) {
        float x_buffer[kRowsInFloat * kBlock], dy_buffer[kRowsInFloat * kBlock],
            dx_buffer[kRowsInFloat * kBlock];
        const float* xs = load_values(from_x + at, 1, n, x_buffer);
        const float* dys = load_values(from_dy + at, 1, n, dy_buffer);
        float* to = place_values(dx + at, dx_buffer);
        for (int64_t i = 0; i < n; i += kBlock)
          for (int k = 0; k < kBlock; ++k)
            to[i + k] = formula(s[k], b[k], slopes[k], xs[i + k] - m[k], dys[i + k]);
        store_values(to, n, dx + at);
      });
    });
  });
}

template <typename T>
void input_gradient_packed(const PackedValues& x, const PackedValues& dy, const float* mean,
                           const float* scale, const float* shift, const float* slope, T* dx) {
  gradient_packed(
      x, dy, mean, scale, shift, slope, dx,
      [](float s, float b, float k, float x, float dy) { return s * (dy - b - x * k); });
}

template <typename T>
void group_gradient_packed(const PackedValues& x, const PackedValues& dy, const float* mean,
                           const float* scale, const float* shift, const float* slope, T* dx) {
  gradient_packed(x, dy, mean, scale, shift, slope, dx,
                  [](float s, float b, float k, float x, float dy) { return dy * s - b - x * k; });
}

#define INSTANTIATE(T)                                                                          \
  template void image_sums_packed<T>(const PackedValues&, double*);                             \
  template void image_squares_packed<T>(const PackedValues&, const double*, double*);           \
  template void channel_moments_packed<T>(const PackedValues&, float*, float*);                 \
  template void normalize_pixels(int64_t, int64_t, const T*, const float*, const float*,        \
                                 const float*, T*);                                             \
  template void normalize_packed(const PackedValues&, const float*, const float*, const float*, \
                                 T*);                                                           \
  template void channel_sums_packed<T>(const PackedValues&, const PackedValues&, const float*,  \
                                       const float*, double*, double*);                         \
  template void input_gradient_packed(const PackedValues&, const PackedValues&, const float*,   \
                                      const float*, const float*, const float*, T*);            \
  template void group_gradient_packed(const PackedValues&, const PackedValues&, const float*,   \
                                      const float*, const float*, const float*, T*);
INSTANTIATE(float)
INSTANTIATE(bfloat16)
#undef INSTANTIATE

}  // namespace tapegrad::backends::cpu
