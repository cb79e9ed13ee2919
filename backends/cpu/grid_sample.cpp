// Bilinear and nearest sampling of images on a grid, a block of positions for all channels at a
// time.
#include <algorithm>
#include <cmath>

#include "backends/cpu/register.h"
#include "ops/internal/grid_sample_kernels.h"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"  // with sanitizers loops are not vectorised
#endif

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kParallel = 32768;  // elements that justify a second thread
constexpr int64_t kBlock = 256;       // positions of a block

/// Coordinates in pixels of a block of positions, and their derivatives with respect to the
/// coordinates of the grid.
template <typename V>
struct Places {
  alignas(64) V at[kBlock], slope[kBlock];

  /// The coordinates g[0], g[2], ...
  void find(const V* g, int64_t count, int64_t size, const GridSampleOptions& o) {
    const V pixels = V(size), last = V(size - 1);
    if (o.align_corners)
      for (int64_t i = 0; i < count; ++i) at[i] = (g[2 * i] + V(1)) * (last / V(2));
    else
      for (int64_t i = 0; i < count; ++i) at[i] = ((g[2 * i] + V(1)) * pixels - V(1)) * V(0.5);
    std::fill_n(slope, count, o.align_corners ? last / V(2) : pixels * V(0.5));
    if (o.padding_mode == GridPadding::kReflection)
      for (int64_t i = 0; i < count; ++i) reflect(i, size, o.align_corners);
    if (o.padding_mode == GridPadding::kZeros) return;
    for (int64_t i = 0; i < count; ++i) {  // no gradient at the border or beyond
      slope[i] = ((at[i] <= V(0)) | (at[i] >= last)) ? V(0) : slope[i];
      at[i] = at[i] < V(0) ? V(0) : at[i] > last ? last : at[i];
    }
  }

 private:
  void reflect(int64_t i, int64_t size, bool align_corners) {
    const V low = align_corners ? V(0) : V(-0.5), span = V(align_corners ? size - 1 : size);
    if (span == 0) {
      at[i] *= V(0), slope[i] = 0;
      return;
    }
    const V away = at[i] - low, distance = std::fabs(away), rest = std::fmod(distance, span);
    const bool even = std::fmod(std::floor(distance / span), V(2)) == 0;
    at[i] = (even ? rest : span - rest) + low;
    slope[i] *= (away > 0 ? V(1) : away < 0 ? V(-1) : V(0)) * (even ? V(1) : V(-1));
  }
};

/// The pixels around a block of positions, with their weights, which are 0 outside the image. The
/// order of corners is (top, left), (bottom, left), (top, right), (bottom, right).
template <typename V, int kCorners, bool kSlopes>
struct Corners {
  int64_t count;
  int32_t offset[kCorners][kBlock];
  V weight[kCorners][kBlock];
  // Derivatives of weights with respect to the coordinates of the grid.
  V along_x[kSlopes ? kCorners : 1][kBlock], along_y[kSlopes ? kCorners : 1][kBlock];

  /// `number` positions of one image; grid has pairs (x, y).
  void find(const V* grid, int64_t number, int64_t height, int64_t width,
            const GridSampleOptions& o) {
    count = number;
    Places<V> x, y;
    x.find(grid, count, width, o);
    y.find(grid + 1, count, height, o);
    for (int k = 0; k < kCorners; ++k) {
      const V right = V(k / 2), bottom = V(k % 2);
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) {
        if constexpr (kCorners == 1) {
          set(k, i, std::nearbyint(x.at[i]), std::nearbyint(y.at[i]), height, width, V(1), V(0),
              V(0));
        } else {
          const V left = std::floor(x.at[i]), top = std::floor(y.at[i]);
          const V tx = x.at[i] - left, ty = y.at[i] - top;
          const V wx = k / 2 == 1 ? tx : V(1) - tx, wy = k % 2 == 1 ? ty : V(1) - ty;
          set(k, i, left + right, top + bottom, height, width, wy * wx,
              (k / 2 == 1 ? wy : -wy) * x.slope[i], (k % 2 == 1 ? wx : -wx) * y.slope[i]);
        }
      }
    }
  }

 private:
  [[gnu::always_inline]] void set(int k, int64_t i, V x, V y, int64_t height, int64_t width, V w,
                                  [[maybe_unused]] V dx, [[maybe_unused]] V dy) {
    const bool inside = (x >= V(0)) & (x <= V(width - 1)) & (y >= V(0)) & (y <= V(height - 1));
    const V column = inside ? x : V(0), row = inside ? y : V(0);
    offset[k][i] = int32_t(row) * int32_t(width) + int32_t(column);
    weight[k][i] = inside ? w : V(0);
    if constexpr (kSlopes) along_x[k][i] = inside ? dx : V(0), along_y[k][i] = inside ? dy : V(0);
  }
};

struct Sampling {
  int64_t n, channels, height, width, positions, blocks;

  Sampling(const Tensor& x, const Tensor& grid)
      : n(x.shape()[0]),
        channels(x.shape()[1]),
        height(x.shape()[2]),
        width(x.shape()[3]),
        positions(grid.shape()[1] * grid.shape()[2]),
        blocks((positions + kBlock - 1) / kBlock) {}
  int64_t first(int64_t block) const { return block * kBlock; }
  int64_t count(int64_t block) const { return std::min(kBlock, positions - first(block)); }
};

template <int kCorners, typename V>
void sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& o, Tensor& y) {
  const Sampling s(x, grid);
  const int64_t plane = s.height * s.width;
#pragma omp parallel for if (y.numel() > kParallel)
  for (int64_t task = 0; task < s.n * s.blocks; ++task) {
    const int64_t image = task / s.blocks, first = s.first(task % s.blocks);
    Corners<V, kCorners, false> corners;
    corners.find(grid.data<V>() + (image * s.positions + first) * 2, s.count(task % s.blocks),
                 s.height, s.width, o);
    for (int64_t c = image * s.channels; c < (image + 1) * s.channels; ++c) {
      const V* from = x.data<V>() + c * plane;
      V* to = y.data<V>() + c * s.positions + first;
#pragma omp simd
      for (int64_t i = 0; i < corners.count; ++i) {
        V sum = from[corners.offset[0][i]] * corners.weight[0][i];
        for (int k = 1; k < kCorners; ++k) sum += from[corners.offset[k][i]] * corners.weight[k][i];
        to[i] = sum;
      }
    }
  }
}

/// Each plane receives the gradients of its positions, in their order.
template <int kCorners, typename V>
void spread(const Tensor& dy, const Tensor& x, const Tensor& grid, const GridSampleOptions& o,
            Tensor& dx) {
  const Sampling s(x, grid);
  const int64_t plane = s.height * s.width;
  // Some planes of an image share the search for corners.
  const int64_t together = std::min<int64_t>(s.channels, 8);
  const int64_t groups = (s.channels + together - 1) / together;
#pragma omp parallel for if (dy.numel() > kParallel)
  for (int64_t task = 0; task < s.n * groups; ++task) {
    const int64_t image = task / groups, channel = task % groups * together;
    const int64_t begin = image * s.channels + channel;
    const int64_t end = begin + std::min(together, s.channels - channel);
    std::fill(dx.data<V>() + begin * plane, dx.data<V>() + end * plane, V(0));
    for (int64_t block = 0; block < s.blocks; ++block) {
      Corners<V, kCorners, false> corners;
      corners.find(grid.data<V>() + (image * s.positions + s.first(block)) * 2, s.count(block),
                   s.height, s.width, o);
      for (int64_t c = begin; c < end; ++c) {
        const V* from = dy.data<V>() + c * s.positions + s.first(block);
        V* to = dx.data<V>() + c * plane;
        for (int64_t i = 0; i < corners.count; ++i)
          for (int k = 0; k < kCorners; ++k)
            if (corners.weight[k][i] != 0)
              to[corners.offset[k][i]] += from[i] * corners.weight[k][i];
      }
    }
  }
}

/// The gradient of the grid: sums over channels of dy times the pixels of each corner.
template <typename V>
void move(const Tensor& dy, const Tensor& x, const Tensor& grid, const GridSampleOptions& o,
          Tensor& dgrid) {
  constexpr int kCorners = 4;
  const Sampling s(x, grid);
  const int64_t plane = s.height * s.width;
#pragma omp parallel for if (dy.numel() > kParallel)
  for (int64_t task = 0; task < s.n * s.blocks; ++task) {
    const int64_t image = task / s.blocks, first = s.first(task % s.blocks);
    const int64_t at = (image * s.positions + first) * 2;
    Corners<V, kCorners, true> corners;
    corners.find(grid.data<V>() + at, s.count(task % s.blocks), s.height, s.width, o);
    double sums[kCorners][kBlock] = {};
    for (int64_t c = image * s.channels; c < (image + 1) * s.channels; ++c) {
      const V* pixels = x.data<V>() + c * plane;
      const V* from = dy.data<V>() + c * s.positions + first;
      for (int k = 0; k < kCorners; ++k)
#pragma omp simd
        for (int64_t i = 0; i < corners.count; ++i)
          sums[k][i] += double(from[i] * pixels[corners.offset[k][i]]);
    }
    V* to = dgrid.data<V>() + at;
    for (int64_t i = 0; i < corners.count; ++i) {
      double along_x = 0, along_y = 0;
      for (int k = 0; k < kCorners; ++k) {
        if (corners.along_x[k][i] != 0) along_x += sums[k][i] * double(corners.along_x[k][i]);
        if (corners.along_y[k][i] != 0) along_y += sums[k][i] * double(corners.along_y[k][i]);
      }
      to[2 * i] = V(along_x), to[2 * i + 1] = V(along_y);
    }
  }
}

template <typename V>
void grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& o, Tensor& y) {
  o.mode == SampleMode::kNearest ? sample<1, V>(x, grid, o, y) : sample<4, V>(x, grid, o, y);
}

template <typename V>
void grid_sample_backward(const Tensor& dy, const Tensor& x, const Tensor& grid,
                          const GridSampleOptions& o, Tensor& dx, Tensor& dgrid) {
  const bool nearest = o.mode == SampleMode::kNearest;
  if (dx) nearest ? spread<1, V>(dy, x, grid, o, dx) : spread<4, V>(dy, x, grid, o, dx);
  if (!dgrid) return;
  if (nearest)
    std::fill_n(dgrid.data<V>(), dgrid.numel(), V(0));
  else
    move<V>(dy, x, grid, o, dgrid);
}

}  // namespace

void register_grid_sample() {
  constexpr TypeList<float, double> kTypes;
  set<kernels::grid_sample>(kTypes,
                            []<typename T>(TypeTag<T>, auto&... a) { grid_sample<T>(a...); });
  set<kernels::grid_sample_backward>(
      kTypes, []<typename T>(TypeTag<T>, auto&... a) { grid_sample_backward<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
