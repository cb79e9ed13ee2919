#include "backends/cpu/fast/conv_small.h"

#include <algorithm>
#include <array>
#include <vector>

#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/per_thread.h"
#include "backends/cpu/tools/relu.h"

namespace tapegrad::backends::cpu {
namespace {

using B = Batch<float>;
constexpr int64_t kLane = kLanes<float>;
constexpr int64_t kMaxTaps = 64;                 // elements of a channel's kernel
constexpr int kTogether = kLane >= 16 ? 2 : 1;   // channels whose sums fit in registers
constexpr int64_t kMaxPieces = 64;               // parts of the batch, each with its own sums
constexpr int64_t kParallel = int64_t(1) << 18;  // products that justify a second thread

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
  /// Returns the start of the vector that contains column j. The last vector of a row overlaps the
  /// previous one, unless the row is shorter than a vector.
  int64_t start(int64_t j) const { return std::min(j, std::max<int64_t>(out_width - kLane, 0)); }
  // Sizes of the padded image, whose rows are long enough for vectors that exceed the width.
  int64_t row() const { return in_lanes(out_width) + kernel_width - 1; }
  int64_t rows() const { return height + 2 * padding.height; }
  int64_t padded_image() const { return in * rows() * row(); }
};

/// Copies the image with zero padding, and zeros where a row's last vector exceeds the width.
void pad_image(const float* image, const Sizes& s, float* padded) {
  std::fill_n(padded, s.padded_image(), 0.0f);
  for (int64_t c = 0; c < s.in; ++c)
    for (int64_t i = 0; i < s.height; ++i)
      std::copy_n(image + (c * s.height + i) * s.width, s.width,
                  padded + (c * s.rows() + s.padding.height + i) * s.row() + s.padding.width);
}

/// Returns the offsets in the padded image of the elements of a kernel.
std::array<int64_t, kMaxTaps> tap_offsets(const Sizes& s) {
  std::array<int64_t, kMaxTaps> offsets;
  int64_t* next = offsets.data();
  for (int64_t c = 0; c < s.in; ++c)
    for (int64_t u = 0; u < s.kernel_height; ++u)
      for (int64_t v = 0; v < s.kernel_width; ++v) *next++ = (c * s.rows() + u) * s.row() + v;
  return offsets;
}

/// for_each_group() with the group sizes of output channels.
template <typename Run>
void for_each_channel_group(int64_t out, const Run& run) {
  for_each_group<10, 6, 4, 2, 1>(out, run);
}

/// Weights in the order of use: those of a group of channels, tap by tap.
std::vector<float> in_groups(const float* weights, const Sizes& s) {
  std::vector<float> result(size_t(s.out * s.taps()));
  for_each_channel_group(s.out, [&](int64_t first, auto count) {
    float* to = result.data() + first * s.taps();
    for (int64_t tap = 0; tap < s.taps(); ++tap)
      for (int64_t k = 0; k < count(); ++k) *to++ = weights[(first + k) * s.taps() + tap];
  });
  return result;
}

/// Returns a mask of the lanes [first, last).
xsimd::batch_bool<float> lanes_between(int64_t first, int64_t last) {
  alignas(64) float lanes[kLane];
  for (int64_t i = 0; i < kLane; ++i) lanes[i] = i >= first && i < last ? 1.0f : 0.0f;
  return B::load_aligned(lanes) > B(0.5f);
}

/// One channel of dy, and of the ReLU's result if there is one.
struct Plane {
  const float *dy, *y;
  int64_t size;  // elements up to the end of the tensor

  /// `count` values of dz, 0 < count <= kLane, starting at element `at`; other lanes are arbitrary.
  B load(int64_t at, int64_t count) const {
    const auto values = [&](const float* from) {
      return at + kLane <= size ? B::load_unaligned(from + at) : load_some(from + at, count);
    };
    return y == nullptr ? values(dy) : formulas::ReluBackward()(values(dy), values(y));
  }
};

/// For kPlanes channels of dz, adds the sum of dz times each of kCount taps of the image to
/// parts[plane * step], and the sum of dz to biases[plane * step] unless biases is null.
template <int kCount, int kPlanes>
void add_products(const Sizes& s, const Plane* planes, const float* image, const int64_t* offsets,
                  double* parts, double* biases, int64_t step) {
  const B zero(0.0f);
  B sums[kPlanes][kCount], totals[kPlanes];
  unrolled<kPlanes>([&](auto p) {
    totals[p] = zero;
    unrolled<kCount>([&](auto k) { sums[p][k] = zero; });
  });
  const int64_t whole = s.out_width - s.out_width % kLane, rest = s.out_width - whole;
  const auto counts = lanes_between(0, rest);
  const auto add = [&](auto all, const float* row, int64_t at) {
    B dz[kPlanes];
    unrolled<kPlanes>([&](auto p) {
      dz[p] = planes[p].load(at, all ? kLane : rest);
      if (!all) dz[p] = select(counts, dz[p], zero);
      totals[p] += dz[p];
    });
    unrolled<kCount>([&](auto k) {
      B values = B::load_unaligned(row + offsets[k]);
      if (!all) values = select(counts, values, zero);  // excluded values may be infinite
      unrolled<kPlanes>([&](auto p) { sums[p][k] = functions::fused(values, dz[p], sums[p][k]); });
    });
  };
  for (int64_t i = 0; i < s.out_height; ++i) {
    const float* row = image + i * s.row();
    const int64_t at = i * s.out_width;
    for (int64_t j = 0; j < whole; j += kLane) add(std::true_type(), row + j, at + j);
    if (rest != 0) add(std::false_type(), row + whole, at + whole);
  }
  unrolled<kPlanes>([&](auto p) {
    unrolled<kCount>([&](auto k) { parts[p * step + k] += double(xsimd::hadd(sums[p][k])); });
    if (biases != nullptr) biases[p * step] += double(xsimd::hadd(totals[p]));
  });
}

bool is_small(const Shape& x, const Shape& w, const Conv2dOptions& o) {
  return w[0] < 16 && w[0] % 8 != 0 && o.groups == 1 && o.stride == Size2d(1) &&
         o.dilation == Size2d(1) && w[1] * w[2] * w[3] <= kMaxTaps && x[3] >= kLane / 2;
}

}  // namespace

bool ConvSmall::accepts(const Tensor& x, const Tensor& weight, const Tensor&,
                        const Conv2dOptions& options, const Epilogue&, const Tensor& y) {
  return x.numel() > 0 && y.numel() > 0 && is_small(x.shape(), weight.shape(), options);
}

void ConvSmall::run(TypeTag<float>, const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const Conv2dOptions& options, const Epilogue& epilogue, Tensor& y) {
  const bool relu = epilogue.activation == Activation::kRelu;
  const Sizes s(x.shape(), weight.shape(), y.shape(), options);
  const float* images = x.data<float>();
  const float* b = bias ? bias.data<float>() : nullptr;
  float* to = y.data<float>();
  const auto offsets = tap_offsets(s);
  const std::vector<float> weights = in_groups(weight.data<float>(), s);
  PerThread padded(s.padded_image());
#pragma omp parallel for if (s.products() > kParallel)
  for (int64_t n = 0; n < s.batch; ++n) {
    float* image = padded.mine();
    pad_image(images + n * s.in * s.height * s.width, s, image);
    for_each_channel_group(
        s.out, [&]<int kCount>(int64_t first, std::integral_constant<int, kCount>) {
          float* plane = to + (n * s.out + first) * s.out_plane();
          const float* factors = weights.data() + first * s.taps();
          for (int64_t i = 0; i < s.out_height; ++i)
            for (int64_t first_j = 0; first_j < s.out_width; first_j += kLane) {
              const int64_t j = s.start(first_j);
              B sums[kCount];
              unrolled<kCount>([&](auto k) { sums[k] = B(b != nullptr ? b[first + k] : 0.0f); });
              const float* from = image + i * s.row() + j;
              const float* factor = factors;
              for (int64_t tap = 0; tap < s.taps(); ++tap, factor += kCount) {
                const B values = B::load_unaligned(from + offsets[tap]);
                unrolled<kCount>(
                    [&](auto k) { sums[k] = functions::fused(values, B(factor[k]), sums[k]); });
              }
              float* row = plane + i * s.out_width + j;
              unrolled<kCount>([&](auto k) {
                if (relu) sums[k] = formulas::Relu()(sums[k]);
                if (j + kLane <= s.out_width)
                  sums[k].store_unaligned(row + k * s.out_plane());
                else
                  store_some<float>(row + k * s.out_plane(), s.out_width - j, sums[k]);
              });
            }
        });
  }
  if (!relu) kernels::run_epilogue(epilogue, y, y);
}

bool ConvBackwardSmall::accepts(const Tensor& dy, const Epilogue& behind, const Tensor& x,
                                const Tensor&, const Conv2dOptions& options, const Tensor& dx,
                                const Tensor& dw, const Tensor&) {
  return behind.activation != Activation::kGelu && dw && dw.numel() > 0 && dy.numel() > 0 &&
         !(dx && dx.numel() == 0) && is_small(x.shape(), dw.shape(), options);
}

void ConvBackwardSmall::run(TypeTag<float>, const Tensor& dy, const Epilogue& behind,
                            const Tensor& x, const Tensor& weight, const Conv2dOptions& options,
                            Tensor& dx, Tensor& dw, Tensor& db) {
  const Sizes s(x.shape(), dw.shape(), dy.shape(), options);
  const float *images = x.data<float>(), *gradients = dy.data<float>();
  const float* from_relu = behind ? behind.at.data<float>() : nullptr;
  const int64_t pieces = std::min(s.batch, kMaxPieces), results = s.out * (s.taps() + 1);
  std::vector<double> parts(size_t(pieces * results));  // per channel: the taps, then the bias
  PerThread padded(s.padded_image());
  const auto offsets = tap_offsets(s);
#pragma omp parallel for if (s.products() > kParallel)
  for (int64_t piece = 0; piece < pieces; ++piece) {
    float* image = padded.mine();
    for (int64_t n = piece * s.batch / pieces; n < (piece + 1) * s.batch / pieces; ++n) {
      pad_image(images + n * s.in * s.height * s.width, s, image);
      double* part = parts.data() + piece * results;
      for_each_group<kTogether, 1>(
          s.out, [&]<int kPlanes>(int64_t o, std::integral_constant<int, kPlanes>) {
            Plane planes[kPlanes];
            for (int p = 0; p < kPlanes; ++p) {
              const int64_t at = (n * s.out + o + p) * s.out_plane();
              planes[p] = {gradients + at, from_relu != nullptr ? from_relu + at : nullptr,
                           dy.numel() - at};
            }
            double* sums = part + o * (s.taps() + 1);
            for_each_group<9, 3, 1>(s.taps(), [&]<int kCount>(int64_t first,
                                                              std::integral_constant<int, kCount>) {
              add_products<kCount, kPlanes>(s, planes, image, offsets.data() + first, sums + first,
                                            first == 0 ? sums + s.taps() : nullptr, s.taps() + 1);
            });
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
  Tensor none;
  if (dx) kernels::conv2d_backward(dy, behind, none, weight, options, dx, none, none);
}

}  // namespace tapegrad::backends::cpu
