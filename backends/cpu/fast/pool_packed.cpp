#include "backends/cpu/fast/pool_packed.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cpu/fast/norm_packed.h"
#include "backends/cpu/fast/pool_spans.h"
#include "backends/cpu/tools/simd.h"

namespace tapegrad::backends::cpu {
namespace {

// A block of channels as a compiler vector (see pool.cpp). Its size is not a template parameter,
// because g++ 12 loses the attribute.
template <int kBlock>
struct BlockVectors;
template <>
struct BlockVectors<16> {
  using Floats [[gnu::vector_size(64)]] = float;
  using Ints [[gnu::vector_size(64)]] = int32_t;
};
template <>
struct BlockVectors<8> {
  using Floats [[gnu::vector_size(32)]] = float;
  using Ints [[gnu::vector_size(32)]] = int32_t;
};

/// Maxima of a window so far. NaN counts as larger than all numbers; the first of equal elements is
/// kept.
template <typename Floats, typename Ints>
struct BlockMaxima {
  Floats values = Floats{} - std::numeric_limits<float>::infinity();
  Ints indices = Ints{} - 1;

  void take(const float* from, int32_t at) {
    Floats other;
    std::memcpy(&other, from, sizeof(other));
    const Ints larger = (~(values >= other) & (values == values)) | (indices < 0);
    values = larger ? other : values;
    indices = larger ? Ints{} + at : indices;
  }
};

/// The elements of a window inside the image, along one dimension.
struct Window {
  int64_t begin, end, step;

  Window(int64_t i, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
         int64_t size) {
    const int64_t first = i * stride - padding;
    step = dilation;
    begin = first >= 0 ? first : first + (-first + dilation - 1) / dilation * dilation;
    end = std::min(first + (kernel - 1) * dilation + 1, size);
  }
};

template <int kBlock>
void max_pool(const float* x, int64_t blocks, const Shape& from, const Shape& to,
              const MaxPool2dOptions& o, float* y, int32_t* indices) {
  using Best =
      BlockMaxima<typename BlockVectors<kBlock>::Floats, typename BlockVectors<kBlock>::Ints>;
  const int64_t width = from[3], plane = from[2] * width, out_plane = to[2] * to[3];
#pragma omp parallel for
  for (int64_t n = 0; n < blocks; ++n) {
    const float* image = x + n * plane * kBlock;
    int64_t at = n * out_plane * kBlock;
    for (int64_t i = 0; i < to[2]; ++i) {
      const Window rows(i, o.kernel_size.height, o.stride->height, o.padding.height,
                        o.dilation.height, from[2]);
      for (int64_t j = 0; j < to[3]; ++j, at += kBlock) {
        const Window columns(j, o.kernel_size.width, o.stride->width, o.padding.width,
                             o.dilation.width, width);
        Best best;
        for (int64_t row = rows.begin; row < rows.end; row += rows.step)
          for (int64_t column = columns.begin; column < columns.end; column += columns.step) {
            const int64_t place = row * width + column;
            best.take(image + place * kBlock, int32_t(place));
          }
        std::memcpy(y + at, &best.values, sizeof(best.values));
        if (indices != nullptr) std::memcpy(indices + at, &best.indices, sizeof(best.indices));
      }
    }
  }
}

template <int kBlock>
void scatter_packed(const float* dy, const int32_t* indices, int64_t blocks, int64_t plane,
                    int64_t out_plane, float* dx) {
#pragma omp parallel for
  for (int64_t n = 0; n < blocks; ++n) {
    float* image = dx + n * plane * kBlock;
    std::fill_n(image, plane * kBlock, 0.0f);
    for (int64_t i = n * out_plane * kBlock; i < (n + 1) * out_plane * kBlock; i += kBlock)
      for (int64_t lane = 0; lane < kBlock; ++lane)
        if (const int32_t at = indices[i + lane]; at >= 0)
          image[at * kBlock + lane] += dy[i + lane];
  }
}

}  // namespace

std::optional<PackedValues> MaxPoolPacked::accepts(const Tensor& x, const MaximumWindows& windows,
                                                   const Tensor& y, const Tensor& indices) {
  auto values = packed_values(x);
  if (!values || windows.adaptive) return {};
  const int64_t block = values->packing.block;
  if (!can_be_packed(y, block) || (indices && !can_be_packed(indices, block))) return {};
  return values;
}

void MaxPoolPacked::run(TypeTag<float>, const PackedValues& values, const Tensor& x,
                        const MaximumWindows& windows, Tensor& y, Tensor& indices) {
  const int64_t block = values.packing.block;
  const auto run = block == 16 ? max_pool<16> : max_pool<8>;
  run(data<float>(values), x.shape()[0] * x.shape()[1] / block, x.shape(), y.shape(),
      windows.options, y.data<float>(), indices ? indices.data<int32_t>() : nullptr);
  const Packing packing = packing_of(y.shape(), block);
  y.storage().set_packed(packing);
  if (indices) indices.storage().set_packed(packing);
}

std::optional<PackedValues> PoolScatterPacked::accepts(const Tensor&, const Tensor& indices,
                                                       const std::optional<MaximumWindows>&,
                                                       const Tensor& dx) {
  auto places = packed_values(indices);
  if (places && !can_be_packed(dx, places->packing.block)) places.reset();
  return places;
}

void PoolScatterPacked::run(TypeTag<float>, const PackedValues& places, const Tensor& dy,
                            const Tensor&, const std::optional<MaximumWindows>&, Tensor& dx) {
  const Packing& packing = places.packing;
  auto gradient = packed_values(dy);
  if (!gradient || gradient->packing != packing) gradient = pack(dy, packing);
  const int64_t block = packing.block, blocks = packing.batch * packing.channels / block;
  const Packing result = packing_of(dx.shape(), block);
  const auto run = block == 16 ? scatter_packed<16> : scatter_packed<8>;
  run(data<float>(*gradient), data<int32_t>(places), blocks, result.size, packing.size,
      dx.data<float>());
  dx.storage().set_packed(result);
}

/// Returns whether each plane is one window.
static bool is_global(const AverageWindows& windows, const Tensor& planes, const Tensor& means) {
  return windows.adaptive && means.numel() == planes.shape()[0] * planes.shape()[1];
}

std::optional<PackedValues> AvgPoolPacked::accepts(const Tensor& x, const AverageWindows& windows,
                                                   const Tensor& y) {
  auto values = is_packable(x.dtype()) ? packed_values(x) : std::nullopt;
  if (values && !is_global(windows, x, y) && !can_be_packed(y, values->packing.block))
    values.reset();
  return values;
}

/// Means of windows of blocks of kBlock channels.
template <int kBlock, typename T>
static void average(const T* x, int64_t blocks, const Planes& p, const AverageWindows& windows,
                    T* y) {
  const AverageSpans spans = average_spans(p, windows);
#pragma omp parallel for
  for (int64_t n = 0; n < blocks; ++n) {
    const T* image = x + n * p.size() * kBlock;
    T* to = y + n * p.out_size() * kBlock;
    for (const Span& row : spans.rows)
      for (const Span& column : spans.columns) {
        float sums[kBlock] = {};
        for (int64_t i = row.begin; i < row.end; ++i)
          for (int64_t j = column.begin; j < column.end; ++j)
            for (int c = 0; c < kBlock; ++c)
              sums[c] += float(image[(i * p.width + j) * kBlock + c]);
        const float count = float(row.count * column.count);
        for (int c = 0; c < kBlock; ++c) *to++ = T(sums[c] / count);
      }
  }
}

template <Packable T>
void AvgPoolPacked::run(TypeTag<T>, const PackedValues& values, const Tensor& x,
                        const AverageWindows& windows, Tensor& y) {
  const Packing& p = values.packing;
  if (is_global(windows, x, y)) {
    std::vector<double> sums(size_t(y.numel()));
    image_sums_packed<T>(values, sums.data());
    for (int64_t i = 0; i < y.numel(); ++i)
      y.data<T>()[i] = T(float(sums[size_t(i)]) / float(p.size));
    return;
  }
  const auto run = p.block == 16 ? average<16, T> : average<8, T>;
  run(data<T>(values), p.batch * p.channels / p.block, planes_of(x.shape(), y.shape()), windows,
      y.data<T>());
  y.storage().set_packed(packing_of(y.shape(), p.block));
}

bool AvgPoolBackwardPacked::accepts(const Tensor& dy, const AverageWindows& windows,
                                    const Tensor& dx) {
  if (dx.dtype() != f32) return false;  // others are summed in float
  if (is_global(windows, dx, dy)) return can_be_packed(dx, kLanes<float>);
  const auto values = packed_values(dy);
  return values && can_be_packed(dx, values->packing.block);
}

/// Adds the gradients of windows to their elements, in the order of the windows.
template <int kBlock>
static void spread(const float* dy, int64_t blocks, const Planes& p, const AverageWindows& windows,
                   float* dx) {
  const AverageSpans spans = average_spans(p, windows);
#pragma omp parallel for
  for (int64_t n = 0; n < blocks; ++n) {
    const float* from = dy + n * p.out_size() * kBlock;
    float* image = dx + n * p.size() * kBlock;
    std::fill_n(image, p.size() * kBlock, 0.0f);
    for (const Span& row : spans.rows)
      for (const Span& column : spans.columns) {
        const float count = float(row.count * column.count);
        float parts[kBlock];
        for (int c = 0; c < kBlock; ++c) parts[c] = *from++ / count;
        for (int64_t i = row.begin; i < row.end; ++i)
          for (int64_t j = column.begin; j < column.end; ++j)
            for (int c = 0; c < kBlock; ++c) image[(i * p.width + j) * kBlock + c] += parts[c];
      }
  }
}

void AvgPoolBackwardPacked::run(TypeTag<float>, const Tensor& dy, const AverageWindows& windows,
                                Tensor& dx) {
  const Planes p = planes_of(dx.shape(), dy.shape());
  const auto values = packed_values(dy);
  const int64_t block = values ? values->packing.block : kLanes<float>;
  // Blocks of single means are in row-major order.
  const float* from = values ? data<float>(*values) : dy.data<float>();
  const auto run = block == 16 ? spread<16> : spread<8>;
  run(from, p.count / block, p, windows, dx.data<float>());
  dx.storage().set_packed(packing_of(dx.shape(), block));
}

template void AvgPoolPacked::run(TypeTag<float>, const PackedValues&, const Tensor&,
                                 const AverageWindows&, Tensor&);
template void AvgPoolPacked::run(TypeTag<bfloat16>, const PackedValues&, const Tensor&,
                                 const AverageWindows&, Tensor&);

}  // namespace tapegrad::backends::cpu
