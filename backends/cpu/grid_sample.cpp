// Sampling of images and volumes on a grid, a block of positions for all channels at a time.
#include <algorithm>
#include <cmath>

#include "backends/cpu/register.h"
#include "backends/cpu/tools/share.h"
#include "ops/internal/kernels/grid_sample.h"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"  // with sanitizers loops are not vectorised
#endif

namespace tapegrad::backends::cpu {
namespace {

/// Positions of a block. The corners of all positions stay in the first-level cache.
template <int kCorners>
constexpr int64_t kPositions = std::min(256, 1024 / kCorners);
constexpr int64_t kLargestBlock = 256;

/// Coordinates in pixels of a block of positions along one axis.
template <typename V>
struct Places {
  int64_t count, size;  // size: pixels of the axis
  const GridSampleOptions& options;
  alignas(64) V at[kLargestBlock];
  V slope[kLargestBlock];  // derivatives with respect to the coordinates of the grid

  Places(int64_t count, int64_t size, const GridSampleOptions& options)
      : count(count), size(size), options(options) {}

  /// Reads the coordinates g[0], g[step], ...
  [[gnu::noinline]] void read(const V* g, int64_t step) {
    const V pixels = V(size), last = V(size - 1);
    if (options.align_corners)
      for (int64_t i = 0; i < count; ++i) at[i] = (g[step * i] + V(1)) * (last / V(2));
    else
      for (int64_t i = 0; i < count; ++i) at[i] = ((g[step * i] + V(1)) * pixels - V(1)) * V(0.5);
    std::fill_n(slope, count, options.align_corners ? last / V(2) : pixels * V(0.5));
  }
  /// Moves coordinates outside of the axis into it, as the padding mode requires.
  [[gnu::noinline]] void pad() {
    if (options.padding_mode == GridPadding::kZeros) return;
    if (options.padding_mode == GridPadding::kReflection)
      for (int64_t i = 0; i < count; ++i) reflect(i);
    const V last = V(size - 1);
    for (int64_t i = 0; i < count; ++i) {  // no gradient at the border or beyond
      slope[i] = ((at[i] <= V(0)) | (at[i] >= last)) ? V(0) : slope[i];
      at[i] = at[i] < V(0) ? V(0) : at[i] > last ? last : at[i];
    }
  }

 private:
  void reflect(int64_t i) {
    const bool align_corners = options.align_corners;
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

/// Weights of Keys' cubic convolution (a = -0.75) and their derivatives, at distance d from a pixel
/// next to the position (d <= 1) and from one beyond it (1 <= d <= 2).
template <typename V>
struct Cubic {
  static constexpr V kA = V(-0.75);
  static V near(V d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; }
  static V near_slope(V d) { return (3 * (kA + 2) * d - 2 * (kA + 3)) * d; }
  static V far(V d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; }
  static V far_slope(V d) { return (3 * kA * d - 10 * kA) * d + 8 * kA; }
};

/// The pixels along one axis from which a block of positions is interpolated: 1 (nearest), 2
/// (linear) or 4 (cubic), with their weights, which are 0 outside the image.
template <typename V, int kTaps>
struct AxisTaps {
  int32_t pixel[kTaps][kLargestBlock];
  V weight[kTaps][kLargestBlock];
  // Derivatives of the weights with respect to the coordinates of the grid.
  V slope[kTaps][kLargestBlock];

  [[gnu::noinline]] void find(const V* grid, int64_t step, int64_t count, int64_t size,
                              const GridSampleOptions& options) {
    Places<V> places(count, size, options);
    places.read(grid, step);
    if constexpr (kTaps == 4) {
      Places<V> pixels(count, size, options);
      for (int k = 0; k < kTaps; ++k) {
        for (int64_t i = 0; i < count; ++i) pixels.at[i] = std::floor(places.at[i]) + V(k - 1);
        std::fill_n(pixels.slope, count, V(0));
        pixels.pad();
#pragma omp simd
        for (int64_t i = 0; i < count; ++i) {
          using C = Cubic<V>;
          const V t = places.at[i] - std::floor(places.at[i]);
          const V d = k == 0 ? t + 1 : k == 1 ? t : k == 2 ? 1 - t : 2 - t;
          const bool is_near = k == 1 || k == 2;
          const V slope = is_near ? C::near_slope(d) : C::far_slope(d);
          set(k, i, pixels.at[i], size, is_near ? C::near(d) : C::far(d),
              (k < 2 ? slope : -slope) * places.slope[i]);
        }
      }
    } else {
      places.pad();
      for (int k = 0; k < kTaps; ++k)
#pragma omp simd
        for (int64_t i = 0; i < count; ++i) {
          if constexpr (kTaps == 1) {
            set(k, i, std::nearbyint(places.at[i]), size, V(1), V(0));
          } else {
            const V first = std::floor(places.at[i]), t = places.at[i] - first;
            set(k, i, first + V(k), size, k == 1 ? t : V(1) - t,
                k == 1 ? places.slope[i] : -places.slope[i]);
          }
        }
    }
  }

 private:
  [[gnu::always_inline]] void set(int k, int64_t i, V at, int64_t size, V w, V dw) {
    const bool inside = (at >= V(0)) & (at <= V(size - 1));
    pixel[k][i] = int32_t(inside ? at : V(0));
    weight[k][i] = inside ? w : V(0);
    slope[k][i] = inside ? dw : V(0);
  }
};

constexpr int power(int base, int exponent) {
  return exponent == 0 ? 1 : base * power(base, exponent - 1);
}

/// An image or volume of the batch, and its sizes. Axis 0 is the last dimension.
template <int kDims>
struct Sampling {
  int64_t n, channels, positions, plane = 1;
  int64_t size[kDims];

  Sampling(const Tensor& x, const Tensor& grid)
      : n(x.shape()[0]), channels(x.shape()[1]), positions(grid.numel() / (n * kDims)) {
    for (int axis = 0; axis < kDims; ++axis) plane *= size[axis] = x.shape()[1 + kDims - axis];
  }
};

/// The pixels around a block of positions, with their weights: a tap of each axis. The tap of axis
/// 0 changes last from corner to corner.
template <typename V, int kDims, int kTaps, bool kSlopes>
struct Corners {
  static constexpr int kCount = power(kTaps, kDims);
  static constexpr int64_t kSize = kPositions<kCount>;
  int64_t count;
  int32_t offset[kCount][kSize];
  V weight[kCount][kSize];
  // Derivatives of weights with respect to the coordinates of the grid.
  V along[kSlopes ? kDims : 1][kSlopes ? kCount : 1][kSize];

  /// `number` positions of one image; grid has kDims coordinates for each.
  [[gnu::noinline]] void find(const V* grid, int64_t number, const Sampling<kDims>& s,
                              const GridSampleOptions& o) {
    count = number;
    AxisTaps<V, kTaps> axes[kDims];
    for (int axis = 0; axis < kDims; ++axis)
      axes[axis].find(grid + axis, kDims, count, s.size[axis], o);
    for (int k = 0; k < kCount; ++k) {
      const int32_t* pixel[kDims];
      const V *w[kDims], *slope[kDims];
      for (int axis = 0; axis < kDims; ++axis) {
        const int tap = k / power(kTaps, kDims - 1 - axis) % kTaps;
        pixel[axis] = axes[axis].pixel[tap];
        w[axis] = axes[axis].weight[tap], slope[axis] = axes[axis].slope[tap];
      }
#pragma omp simd
      for (int64_t i = 0; i < count; ++i) {
        int32_t at = 0;
        V product = w[kDims - 1][i];
        for (int axis = kDims - 1; axis >= 0; --axis) {
          at = at * int32_t(s.size[axis]) + pixel[axis][i];
          if (axis < kDims - 1) product *= w[axis][i];
        }
        offset[k][i] = at, weight[k][i] = product;
      }
      if constexpr (kSlopes)
        for (int moved = 0; moved < kDims; ++moved)
#pragma omp simd
          for (int64_t i = 0; i < count; ++i) {
            V product = slope[moved][i];
            for (int axis = 0; axis < kDims; ++axis)
              if (axis != moved) product *= w[axis][i];
            along[moved][k][i] = product;
          }
    }
  }
};

template <int kDims, int kTaps, typename V>
void sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& o, Tensor& y) {
  using C = Corners<V, kDims, kTaps, false>;
  const Sampling<kDims> s(x, grid);
  const int64_t blocks = (s.positions + C::kSize - 1) / C::kSize;
#pragma omp parallel for if (y.numel() > kParallel)
  for (int64_t task = 0; task < s.n * blocks; ++task) {
    const int64_t image = task / blocks, first = task % blocks * C::kSize;
    C corners;
    corners.find(grid.data<V>() + (image * s.positions + first) * kDims,
                 std::min(C::kSize, s.positions - first), s, o);
    for (int64_t c = image * s.channels; c < (image + 1) * s.channels; ++c) {
      const V* from = x.data<V>() + c * s.plane;
      V* to = y.data<V>() + c * s.positions + first;
#pragma omp simd
      for (int64_t i = 0; i < corners.count; ++i) {
        V sum = from[corners.offset[0][i]] * corners.weight[0][i];
        for (int k = 1; k < C::kCount; ++k)
          sum += from[corners.offset[k][i]] * corners.weight[k][i];
        to[i] = sum;
      }
    }
  }
}

/// Each plane receives the gradients of its positions, in their order.
template <int kDims, int kTaps, typename V>
void spread(const Tensor& dy, const Tensor& x, const Tensor& grid, const GridSampleOptions& o,
            Tensor& dx) {
  using C = Corners<V, kDims, kTaps, false>;
  const Sampling<kDims> s(x, grid);
  // Some planes of an image share the search for corners.
  const int64_t together = std::min<int64_t>(s.channels, 8);
  const int64_t groups = (s.channels + together - 1) / together;
#pragma omp parallel for if (dy.numel() > kParallel)
  for (int64_t task = 0; task < s.n * groups; ++task) {
    const int64_t image = task / groups, channel = task % groups * together;
    const int64_t begin = image * s.channels + channel;
    const int64_t end = begin + std::min(together, s.channels - channel);
    std::fill(dx.data<V>() + begin * s.plane, dx.data<V>() + end * s.plane, V(0));
    for (int64_t first = 0; first < s.positions; first += C::kSize) {
      C corners;
      corners.find(grid.data<V>() + (image * s.positions + first) * kDims,
                   std::min(C::kSize, s.positions - first), s, o);
      for (int64_t c = begin; c < end; ++c) {
        const V* from = dy.data<V>() + c * s.positions + first;
        V* to = dx.data<V>() + c * s.plane;
        for (int64_t i = 0; i < corners.count; ++i)
          for (int k = 0; k < C::kCount; ++k)
            if (corners.weight[k][i] != 0)
              to[corners.offset[k][i]] += from[i] * corners.weight[k][i];
      }
    }
  }
}

/// The gradient of the grid: sums over channels of dy times the pixels of each corner.
template <int kDims, int kTaps, typename V>
void move(const Tensor& dy, const Tensor& x, const Tensor& grid, const GridSampleOptions& o,
          Tensor& dgrid) {
  using C = Corners<V, kDims, kTaps, true>;
  const Sampling<kDims> s(x, grid);
  const int64_t blocks = (s.positions + C::kSize - 1) / C::kSize;
#pragma omp parallel for if (dy.numel() > kParallel)
  for (int64_t task = 0; task < s.n * blocks; ++task) {
    const int64_t image = task / blocks, first = task % blocks * C::kSize;
    const int64_t at = (image * s.positions + first) * kDims;
    C corners;
    corners.find(grid.data<V>() + at, std::min(C::kSize, s.positions - first), s, o);
    double sums[C::kCount][C::kSize] = {};
    for (int64_t c = image * s.channels; c < (image + 1) * s.channels; ++c) {
      const V* pixels = x.data<V>() + c * s.plane;
      const V* from = dy.data<V>() + c * s.positions + first;
      for (int k = 0; k < C::kCount; ++k)
#pragma omp simd
        for (int64_t i = 0; i < corners.count; ++i)
          sums[k][i] += double(from[i] * pixels[corners.offset[k][i]]);
    }
    V* to = dgrid.data<V>() + at;
    for (int64_t i = 0; i < corners.count; ++i)
      for (int axis = 0; axis < kDims; ++axis) {
        double total = 0;
        for (int k = 0; k < C::kCount; ++k)
          if (corners.along[axis][k][i] != 0)
            total += sums[k][i] * double(corners.along[axis][k][i]);
        to[kDims * i + axis] = V(total);
      }
  }
}

/// Calls f<kDims, kTaps>() for the images or volumes x. Only images have four taps.
template <typename F>
void for_shape(const Tensor& x, SampleMode mode, const F& f) {
  const bool is_image = x.rank() == 4, is_nearest = mode == SampleMode::kNearest;
  if (!is_image) return is_nearest ? f.template operator()<3, 1>() : f.template operator()<3, 2>();
  if (is_nearest) return f.template operator()<2, 1>();
  mode == SampleMode::kCubic ? f.template operator()<2, 4>() : f.template operator()<2, 2>();
}

template <typename V>
void grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& o, Tensor& y) {
  for_shape(x, o.mode, [&]<int kDims, int kTaps>() { sample<kDims, kTaps, V>(x, grid, o, y); });
}

template <typename V>
void grid_sample_backward(const Tensor& dy, const Tensor& x, const Tensor& grid,
                          const GridSampleOptions& o, Tensor& dx, Tensor& dgrid) {
  for_shape(x, o.mode, [&]<int kDims, int kTaps>() {
    if (dx) spread<kDims, kTaps, V>(dy, x, grid, o, dx);
    if (!dgrid) return;
    if constexpr (kTaps == 1)
      std::fill_n(dgrid.data<V>(), dgrid.numel(), V(0));
    else
      move<kDims, kTaps, V>(dy, x, grid, o, dgrid);
  });
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
