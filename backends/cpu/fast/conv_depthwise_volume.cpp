#include "backends/cpu/fast/conv_depthwise_volume.h"

#include <algorithm>
#include <vector>

#include "backends/cpu/tools/exponentials.h"
#include "backends/cpu/tools/functions.h"
#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/per_thread.h"

namespace tapegrad::backends::cpu {
namespace {

using B = Batch<float>;
constexpr int64_t kMaxVolumeTaps = 343;                // elements of a channel's kernel
constexpr int64_t kParallelVolume = int64_t(1) << 18;  // products that justify a second thread

int64_t count(Size3d size) { return size.depth * size.height * size.width; }
Size3d sizes_of(const Shape& shape) { return {shape[2], shape[3], shape[4]}; }

/// A channel of a volume, copied to a workspace with zeros around it, and the distances of the
/// elements that a result reads from the one at the result's own position.
struct Field {
  Size3d size, first, padded;  // of the volume; its position that is copied first; of the copy
  std::vector<int64_t> taps;   // distances, in the order of the weights

  /// The elements of a volume of `size` that `result` reads. The gradient (not `forward`) reads
  /// the volume dy with the weights in reversed order.
  Field(Size3d size, Size3d result, Size3d kernel, const Conv3dOptions& o, bool forward)
      : size(size), first(0), padded(0) {
    const auto reach = [](int64_t kernel, int64_t dilation) { return dilation * (kernel - 1); };
    const Size3d last{reach(kernel.depth, o.dilation.depth),
                      reach(kernel.height, o.dilation.height),
                      reach(kernel.width, o.dilation.width)};
    const Size3d& p = o.padding;
    first = forward ? Size3d{-p.depth, -p.height, -p.width}
                    : Size3d{p.depth - last.depth, p.height - last.height, p.width - last.width};
    padded = {result.depth + last.depth, result.height + last.height, result.width + last.width};
    for (int64_t d = 0; d < kernel.depth; ++d)
      for (int64_t h = 0; h < kernel.height; ++h)
        for (int64_t w = 0; w < kernel.width; ++w)
          taps.push_back(place(d * o.dilation.depth, h * o.dilation.height, w * o.dilation.width));
    if (!forward) std::reverse(taps.begin(), taps.end());
  }
  int64_t place(int64_t d, int64_t h, int64_t w) const {
    return (d * padded.height + h) * padded.width + w;
  }
  /// Returns the floats of the copy, and of the vector that begins at its last element.
  int64_t floats() const { return count(padded) + kLanes<float>; }

  void copy(const float* from, float* to) const {
    const int64_t begin = std::clamp<int64_t>(-first.width, 0, padded.width);
    const int64_t end = std::clamp<int64_t>(size.width - first.width, begin, padded.width);
    for (int64_t d = 0; d < padded.depth; ++d)
      for (int64_t h = 0; h < padded.height; ++h, to += padded.width) {
        const int64_t z = d + first.depth, y = h + first.height;
        if (z < 0 || z >= size.depth || y < 0 || y >= size.height) {
          std::fill_n(to, padded.width, 0.0f);
          continue;
        }
        const float* row = from + (z * size.height + y) * size.width;
        std::fill_n(to, begin, 0.0f);
        std::copy_n(row + first.width + begin, end - begin, to + begin);
        std::fill_n(to + end, padded.width - end, 0.0f);
      }
  }
};

/// Computes each channel of `to` from the same channel of `from`. Sweeps over whole slices of the
/// copy; values beyond the rows of the result are dropped.
void convolve_volume(const Field& field, const float* from, const float* weights, const float* bias,
                     int64_t batch, int64_t channels, Size3d result, float* to) {
  const int64_t slice = field.place(0, result.height - 1, result.width);
  const int64_t vectors = (slice + kLanes<float> - 1) / kLanes<float>,
                taps = int64_t(field.taps.size());
  PerThread workspace(field.floats() + vectors * kLanes<float>);
#pragma omp parallel for if (batch * channels * count(result) * taps > kParallelVolume)
  for (int64_t task = 0; task < batch * channels; ++task) {
    float* values = workspace.mine();
    float* line = values + field.floats();
    const float* w = weights + task % channels * taps;
    const B start(bias != nullptr ? bias[task % channels] : 0.0f);
    float* y = to + task * count(result);
    field.copy(from + task * count(field.size), values);
    for (int64_t d = 0; d < result.depth; ++d) {
      const float* base = values + field.place(d, 0, 0);
      for_each_group<8, 4, 2, 1>(
          vectors, [&]<int kCount>(int64_t first, std::integral_constant<int, kCount>) {
            B sums[kCount];
            unrolled<kCount>([&](auto q) { sums[q] = start; });
            for (int64_t tap = 0; tap < taps; ++tap) {
              const float* at = base + first * kLanes<float> + field.taps[size_t(tap)];
              const B factor(w[tap]);
              unrolled<kCount>([&](auto q) {
                sums[q] =
                    functions::fused(B::load_unaligned(at + q() * kLanes<float>), factor, sums[q]);
              });
            }
            unrolled<kCount>(
                [&](auto q) { sums[q].store_unaligned(line + (first + q()) * kLanes<float>); });
          });
      for (int64_t h = 0; h < result.height; ++h, y += result.width)
        std::copy_n(line + h * field.padded.width, result.width, y);
    }
  }
}

/// Adds dy times the values at the taps [tap, tap + kCount), summed over a slice, to the sums.
template <int kCount>
void add_slice(const float* dy, Size3d size, const float* values, int64_t pitch,
               const int64_t* taps, double* sums) {
  B parts[kCount];
  unrolled<kCount>([&](auto k) { parts[k] = B(0.0f); });
  for (int64_t h = 0; h < size.height; ++h, dy += size.width, values += pitch)
    for (int64_t i = 0; i < size.width; i += kLanes<float>) {
      const int64_t lanes = std::min(kLanes<float>, size.width - i);
      const B factor = load_lanes(dy + i, lanes, 0.0f);
      unrolled<kCount>([&](auto k) {
        const B value = load_lanes(values + i + taps[k()], lanes, 0.0f);
        parts[k] = functions::fused(value, factor, parts[k]);
      });
    }
  unrolled<kCount>([&](auto k) {
    alignas(64) float lanes[kLanes<float>];
    parts[k].store_aligned(lanes);
    for (const float lane : lanes) sums[k()] += double(lane);
  });
}

/// One thread sums the gradients of a channel, over the images and slices in their order.
void volume_weight_gradient(const Field& field, const float* x, const float* dy, int64_t batch,
                            int64_t channels, Size3d result, float* dw, float* db) {
  const int64_t taps = int64_t(field.taps.size()), plane = result.height * result.width;
  PerThread workspace(field.floats());
  std::vector<double> sums(size_t(channels * taps));
#pragma omp parallel for if (batch * channels * count(result) * taps > kParallelVolume)
  for (int64_t c = 0; c < channels; ++c) {
    float* values = workspace.mine();
    double* mine = sums.data() + c * taps;
    double total = 0;
    for (int64_t n = 0; n < batch; ++n) {
      const float* gradient = dy + (n * channels + c) * count(result);
      field.copy(x + (n * channels + c) * count(field.size), values);
      for (int64_t d = 0; d < result.depth; ++d, gradient += plane) {
        const float* base = values + field.place(d, 0, 0);
        for_each_group<kLanes<float> >= 16 ? 27 : 12, 12, 9, 4, 2, 1>(
            taps, [&]<int kCount>(int64_t first, std::integral_constant<int, kCount>) {
              add_slice<kCount>(gradient, result, base, field.padded.width,
                                field.taps.data() + first, mine + first);
            });
        for (int64_t i = 0; db != nullptr && i < plane; ++i) total += double(gradient[i]);
      }
    }
    std::copy_n(mine, taps, dw + c * taps);
    if (db != nullptr) db[c] = float(total);
  }
}

bool is_depthwise(const Shape& weight, const Conv3dOptions& o) {
  const Size3d kernel = sizes_of(weight);
  return o.groups > 1 && weight[0] == o.groups && weight[1] == 1 && o.stride == Size3d(1) &&
         count(kernel) <= kMaxVolumeTaps;
}

}  // namespace

bool ConvDepthwiseVolume::accepts(const Tensor&, const Tensor& weight, const Tensor&,
                                  const Conv3dOptions& options, const Tensor&) {
  return weight.dtype() == f32 && is_depthwise(weight.shape(), options);
}

void ConvDepthwiseVolume::run(TypeTag<float>, const Tensor& x, const Tensor& weight,
                              const Tensor& bias, const Conv3dOptions& options, Tensor& y) {
  const Size3d result = sizes_of(y.shape());
  const Field field(sizes_of(x.shape()), result, sizes_of(weight.shape()), options, true);
  convolve_volume(field, x.data<float>(), weight.data<float>(), bias ? bias.data<float>() : nullptr,
                  y.shape()[0], y.shape()[1], result, y.data<float>());
}

bool ConvBackwardDepthwiseVolume::accepts(const Tensor& dy, const Tensor&, const Tensor& weight,
                                          const Conv3dOptions& options, const Tensor& dx,
                                          const Tensor& dw, const Tensor&) {
  if (!dx && !dw) return false;
  return dy.numel() > 0 && is_depthwise(dw ? dw.shape() : weight.shape(), options);
}

void ConvBackwardDepthwiseVolume::run(TypeTag<float>, const Tensor& dy, const Tensor& x,
                                      const Tensor& weight, const Conv3dOptions& options,
                                      Tensor& dx, Tensor& dw, Tensor& db) {
  const Size3d result = sizes_of(dy.shape()), kernel = sizes_of((dw ? dw : weight).shape());
  const int64_t batch = dy.shape()[0], channels = dy.shape()[1];
  if (dx) {
    const Size3d size = sizes_of(dx.shape());
    convolve_volume(Field(result, size, kernel, options, false), dy.data<float>(),
                    weight.data<float>(), nullptr, batch, channels, size, dx.data<float>());
  }
  if (dw)
    volume_weight_gradient(Field(sizes_of(x.shape()), result, kernel, options, true),
                           x.data<float>(), dy.data<float>(), batch, channels, result,
                           dw.data<float>(), db ? db.data<float>() : nullptr);
}

}  // namespace tapegrad::backends::cpu
