#include "backends/cpu/fast/norm_packed.h"

#include <algorithm>
#include <type_traits>
#include <vector>

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kRows = 256;  // rows summed in float before sums are joined in double

template <typename Run>
void with_block(const Packing& p, const Run& run) {
  if (p.block == 16)
    run(std::integral_constant<int, 16>());
  else
    run(std::integral_constant<int, 8>());
}

/// Calls run(first channel, offset of its block, rows) with each channel's images in order.
template <typename Run>
void for_each_channel_block(const Packing& p, const Run& run) {
  const int64_t blocks = p.channels / p.block;
#pragma omp parallel for
  for (int64_t c = 0; c < blocks; ++c)
    for (int64_t n = 0; n < p.batch; ++n)
      run(c * p.block, (n * blocks + c) * p.size * p.block, p.size);
}

/// Calls run() for image blocks in any order.
template <typename Run>
void for_each_image_block(const Packing& p, const Run& run) {
  const int64_t blocks = p.channels / p.block;
#pragma omp parallel for
  for (int64_t i = 0; i < p.batch * blocks; ++i)
    run(i % blocks * p.block, i * p.size * p.block, p.size);
}

}  // namespace

void channel_moments_packed(const PackedValues& x, float* mean, float* var) {
  const Packing& p = x.packing;
  const double count = double(p.batch * p.size);
  std::vector<double> sums(size_t(p.channels)), squares(size_t(p.channels));
  with_block(p, [&]<int kBlock>(std::integral_constant<int, kBlock>) {
    const float* from = data<float>(x);
    for_each_channel_block(p, [&](int64_t channel, int64_t offset, int64_t rows) {
      double part[kBlock] = {};
      for (int64_t i = 0; i < rows; ++i)
        for (int k = 0; k < kBlock; ++k) part[k] += double(from[offset + i * kBlock + k]);
      for (int k = 0; k < kBlock; ++k) sums[size_t(channel + k)] += part[k];
    });
    for (double& sum : sums) sum /= count;
    for_each_channel_block(p, [&](int64_t channel, int64_t offset, int64_t rows) {
      double part[kBlock] = {}, centre[kBlock];
      std::copy_n(&sums[size_t(channel)], kBlock, centre);
      for (int64_t i = 0; i < rows; ++i)
        for (int k = 0; k < kBlock; ++k) {
          const double d = double(from[offset + i * kBlock + k]) - centre[k];
          part[k] += d * d;
        }
      for (int k = 0; k < kBlock; ++k) squares[size_t(channel + k)] += part[k];
    });
  });
  for (int64_t c = 0; c < p.channels; ++c) {
    mean[c] = float(sums[size_t(c)]);
    var[c] = float(squares[size_t(c)] / count);
  }
}

void normalize_packed(const PackedValues& x, const float* mean, const float* scale,
                      const float* shift, float* y) {
  with_block(x.packing, [&]<int kBlock>(std::integral_constant<int, kBlock>) {
    const float* from = data<float>(x);
    for_each_image_block(x.packing, [&](int64_t channel, int64_t offset, int64_t rows) {
      float m[kBlock], s[kBlock], b[kBlock];
      std::copy_n(mean + channel, kBlock, m);
      std::copy_n(scale + channel, kBlock, s);
      std::copy_n(shift + channel, kBlock, b);
      const float* xs = from + offset;
      float* to = y + offset;
      for (int64_t i = 0; i < rows * kBlock; i += kBlock)
        for (int k = 0; k < kBlock; ++k) to[i + k] = (xs[i + k] - m[k]) * s[k] + b[k];
    });
  });
}

void channel_sums_packed(const PackedValues& x, const PackedValues& dy, const float* mean,
                         const float* invstd, double* sums, double* products) {
  with_block(x.packing, [&]<int kBlock>(std::integral_constant<int, kBlock>) {
    const float *xs = data<float>(x), *dys = data<float>(dy);
    for_each_channel_block(x.packing, [&](int64_t channel, int64_t offset, int64_t rows) {
      float m[kBlock], v[kBlock];
      std::copy_n(mean + channel, kBlock, m);
      std::copy_n(invstd + channel, kBlock, v);
      for (int64_t first = 0; first < rows; first += kRows) {
        float sum[kBlock] = {}, product[kBlock] = {};
        for (int64_t i = first; i < std::min(rows, first + kRows); ++i)
          for (int k = 0; k < kBlock; ++k) {
            const int64_t at = offset + i * kBlock + k;
            sum[k] += dys[at];
            product[k] += dys[at] * ((xs[at] - m[k]) * v[k]);
          }
        for (int k = 0; k < kBlock; ++k) {
          sums[channel + k] += double(sum[k]);
          products[channel + k] += double(product[k]);
        }
      }
    });
  });
}

void input_gradient_packed(const PackedValues& x, const PackedValues& dy, const float* mean,
                           const float* scale, const float* shift, const float* slope, float* dx) {
  with_block(x.packing, [&]<int kBlock>(std::integral_constant<int, kBlock>) {
    const float *xs = data<float>(x), *dys = data<float>(dy);
    for_each_image_block(x.packing, [&](int64_t channel, int64_t offset, int64_t rows) {
      float m[kBlock], s[kBlock], b[kBlock], slopes[kBlock];
      std::copy_n(mean + channel, kBlock, m);
      std::copy_n(scale + channel, kBlock, s);
      std::copy_n(shift + channel, kBlock, b);
      std::copy_n(slope + channel, kBlock, slopes);
      for (int64_t i = offset; i < offset + rows * kBlock; i += kBlock)
        for (int k = 0; k < kBlock; ++k)
          dx[i + k] = s[k] * (dys[i + k] - b[k] - (xs[i + k] - m[k]) * slopes[k]);
    });
  });
}

}  // namespace tapegrad::backends::cpu
