#include "backends/cpu/conv_small.h"

#include <algorithm>
#include <vector>

#include <omp.h>

#include "backends/cpu/relu.h"

namespace tapegrad::backends::cpu {
namespace {

using B = Batch<float>;
constexpr int64_t kLane = kLanes<float>;
constexpr int64_t kMaxTaps = 64;                 // elements of a channel's kernel
constexpr int64_t kMaxPieces = 64;               // of the batch, each with sums of its own
constexpr int64_t kParallel = int64_t(1) << 18;  // products that are worth a second thread

int64_t in_lanes(int64_t n) { return (n + kLane - 1) / kLane * kLane; }

struct Sizes {
  int64_t batch, in, height, width, out, kernel_height, kernel_width, out_height, out_width;
  Size2d padding;

  Sizes(const Shape& x, const Shape& w, const Shape& y, const Conv2dOptions& options)
      : batch(x[0]),
        in(x[1]),
        height(x[2]),
        width(x[3]),
        out(w[0]),
        kernel_height(w[2]),
        kernel_width(w[3]),
        out_height(y[2]),
        out_width(y[3]),
        padding(options.padding) {}

  int64_t taps() const { return in * kernel_height * kernel_width; }
  int64_t out_plane() const { return out_height * out_width; }
  int64_t products() const { return batch * out * taps() * out_plane(); }
  // Of the padded image: rows that vectors may run over.
  int64_t row() const { return in_lanes(out_width) + kernel_width - 1; }
  int64_t rows() const { return height + 2 * padding.height; }
  int64_t padded_image() const { return in * rows() * row(); }
};

/// The image with its padding, and zeros where a row's last vector runs over.
void pad_image(const float* image, const Sizes& s, float* padded) {
  std::fill_n(padded, s.padded_image(), 0.0f);
  for (int64_t c = 0; c < s.in; ++c)
    for (int64_t i = 0; i < s.height; ++i)
      std::copy_n(image + (c * s.height + i) * s.width, s.width,
                  padded + (c * s.rows() + s.padding.height + i) * s.row() + s.padding.width);
}

/// Calls visit(tap, offset in the padded image) for each element of a channel's kernel.
template <typename Visit>
void for_each_tap(const Sizes& s, const Visit& visit) {
  int64_t tap = 0;
  for (int64_t c = 0; c < s.in; ++c)
    for (int64_t u = 0; u < s.kernel_height; ++u)
      for (int64_t v = 0; v < s.kernel_width; ++v) visit(tap++, (c * s.rows() + u) * s.row() + v);
}

/// Calls run(first, Int<count>) for groups of channels that fit the registers.
template <typename Run>
void for_each_group(int64_t channels, const Run& run) {
  int64_t first = 0;
  for (; first + 8 <= channels; first += 8) run(first, std::integral_constant<int, 8>());
  for (; first + 2 <= channels; first += 2) run(first, std::integral_constant<int, 2>());
  for (; first < channels; ++first) run(first, std::integral_constant<int, 1>());
}

/// Memory for each thread, made before they start: they must not fail.
class PerThread {
 public:
  explicit PerThread(int64_t floats)
      : floats_(in_lanes(floats)), memory_(size_t(floats_ * omp_get_max_threads())) {}
  float* mine() { return memory_.data() + omp_get_thread_num() * floats_; }

 private:
  int64_t floats_;
  std::vector<float> memory_;
};

/// Lanes that are there in the last vector of a row.
xsimd::batch_bool<float> lanes_below(int64_t count) {
  alignas(64) float lanes[kLane];
  for (int64_t i = 0; i < kLane; ++i) lanes[i] = i < count ? 1.0f : 0.0f;
  return B::load_aligned(lanes) > B(0.5f);
}

}  // namespace

bool is_small_conv(const Shape& x, const Shape& w, const Conv2dOptions& o) {
  return w[0] < 16 && w[0] % 8 != 0 && o.groups == 1 && o.stride == Size2d(1) &&
         o.dilation == Size2d(1) && w[1] * w[2] * w[3] <= kMaxTaps && x[3] >= kLane / 2;
}

void conv2d_small(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Conv2dOptions& options, bool relu, Tensor& y) {
  const Sizes s(x.shape(), weight.shape(), y.shape(), options);
  const float *images = x.data<float>(), *w = weight.data<float>();
  const float* b = bias ? bias.data<float>() : nullptr;
  float* to = y.data<float>();
  PerThread padded(s.padded_image());
#pragma omp parallel for if (s.products() > kParallel)
  for (int64_t n = 0; n < s.batch; ++n) {
    float* image = padded.mine();
    pad_image(images + n * s.in * s.height * s.width, s, image);
    for_each_group(s.out, [&]<int kCount>(int64_t first, std::integral_constant<int, kCount>) {
      float* plane = to + (n * s.out + first) * s.out_plane();
      for (int64_t i = 0; i < s.out_height; ++i)
        for (int64_t j = 0; j < s.out_width; j += kLane) {
          B sums[kCount];
          for (int k = 0; k < kCount; ++k) sums[k] = B(b != nullptr ? b[first + k] : 0.0f);
          for_each_tap(s, [&](int64_t tap, int64_t offset) {
            const B values = B::load_unaligned(image + offset + i * s.row() + j);
            for (int k = 0; k < kCount; ++k)
              sums[k] = functions::fused(values, B(w[(first + k) * s.taps() + tap]), sums[k]);
          });
          float* row = plane + i * s.out_width + j;
          for (int k = 0; k < kCount; ++k, row += s.out_plane()) {
            if (relu) sums[k] = formulas::Relu()(sums[k]);
            if (j + kLane <= s.out_width)
              sums[k].store_unaligned(row);
            else
              store_some<float>(row, s.out_width - j, sums[k]);
          }
        }
    });
  }
}

void conv2d_small_backward(const Tensor& dy, const Tensor& y, const Tensor& x,
                           const Conv2dOptions& options, Tensor& dw, Tensor& db) {
  const Sizes s(x.shape(), dw.shape(), dy.shape(), options);
  const float *images = x.data<float>(), *gradients = dy.data<float>();
  const float* from_relu = y ? y.data<float>() : nullptr;
  const int64_t row = in_lanes(s.out_width), plane = s.out_height * row;
  const int64_t pieces = std::min(s.batch, kMaxPieces), results = s.out * (s.taps() + 1);
  std::vector<double> parts(size_t(pieces * results));  // of each channel its taps, then its bias
  PerThread padded(in_lanes(s.padded_image()) + s.out * plane);
  const auto last = lanes_below(s.out_width - (row - kLane));
#pragma omp parallel for if (s.products() > kParallel)
  for (int64_t piece = 0; piece < pieces; ++piece) {
    float *image = padded.mine(), *up = image + in_lanes(s.padded_image());
    double* part = parts.data() + piece * results;
    std::fill_n(up, s.out * plane, 0.0f);
    for (int64_t n = piece * s.batch / pieces; n < (piece + 1) * s.batch / pieces; ++n) {
      pad_image(images + n * s.in * s.height * s.width, s, image);
      for (int64_t i = 0; i < s.out * s.out_height; ++i) {
        const int64_t from = n * s.out * s.out_plane() + i * s.out_width;
        if (from_relu == nullptr)
          std::copy_n(gradients + from, s.out_width, up + i * row);
        else
          mask_by_result(gradients + from, from_relu + from, s.out_width, up + i * row);
      }
      for_each_group(s.out, [&]<int kCount>(int64_t first, std::integral_constant<int, kCount>) {
        const auto add = [&](int64_t result, const auto& factor) {
          B sums[kCount];
          std::fill_n(sums, kCount, B(0.0f));
          for (int64_t i = 0; i < s.out_height; ++i)
            for (int64_t j = 0; j < row; j += kLane) {
              const B values = factor(i, j);
              for (int k = 0; k < kCount; ++k)
                sums[k] = functions::fused(
                    values, B::load_unaligned(up + (first + k) * plane + i * row + j), sums[k]);
            }
          for (int k = 0; k < kCount; ++k)
            part[(first + k) * (s.taps() + 1) + result] += double(xsimd::hadd(sums[k]));
        };
        for_each_tap(s, [&](int64_t tap, int64_t offset) {
          add(tap, [&](int64_t i, int64_t j) {
            const B values = B::load_unaligned(image + offset + i * s.row() + j);
            return j + kLane < row ? values : select(last, values, B(0.0f));
          });
        });
        if (db) add(s.taps(), [](int64_t, int64_t) { return B(1.0f); });
      });
    }
  }
  for (int64_t o = 0; o < s.out; ++o)
    for (int64_t tap = 0; tap <= s.taps(); ++tap) {
      double sum = 0;
      for (int64_t piece = 0; piece < pieces; ++piece)
        sum += parts[size_t(piece * results + o * (s.taps() + 1) + tap)];
      if (tap < s.taps())
        dw.data<float>()[o * s.taps() + tap] = float(sum);
      else if (db)
        db.data<float>()[o] = float(sum);
    }
}

}  // namespace tapegrad::backends::cpu
