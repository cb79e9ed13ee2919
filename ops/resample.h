// Resizing images and sampling images on a grid.
//
// Coordinates treat a pixel as a square. With align_corners = false the image extends from -1/2 to
// size - 1/2 in pixels, and grid coordinates -1 and 1 are its outer edges; with align_corners =
// true they are the centres of the first and the last pixel. Sixteen-bit floats are computed in
// float32.
#pragma once

#include <vector>

#include "core/base/by_name.h"
#include "core/base/choice.h"
#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

enum class SampleMode {
  kNearest,       // the pixel at floor(i / scale)
  kNearestExact,  // the pixel that contains the centre
  kLinear,        // linear, bilinear or trilinear, by the number of dimensions
  kBilinear,      // kLinear of [n, c, h, w]
  kTrilinear,     // kLinear of [n, c, d, h, w]
  kCubic,         // bicubic over 4 x 4 pixels (Keys, a = -0.75); [n, c, h, w] only
  kArea,          // mean of the pixels under each result, as adaptive_avg_pool; not for grid_sample
};

constexpr auto choice_names(SampleMode) {
  return std::to_array<ChoiceName<SampleMode>>({{"nearest", SampleMode::kNearest},
                                                {"nearest-exact", SampleMode::kNearestExact},
                                                {"linear", SampleMode::kLinear},
                                                {"bilinear", SampleMode::kBilinear},
                                                {"trilinear", SampleMode::kTrilinear},
                                                {"bicubic", SampleMode::kCubic},
                                                {"area", SampleMode::kArea}});
}

/// An output size: one number for all spatial dimensions, or one for each.
struct OutputSize : std::vector<int64_t> {
  OutputSize() = default;
  OutputSize(int64_t all) : vector{all} {}
  OutputSize(std::initializer_list<int64_t> sizes) : vector(sizes) {}
  OutputSize(std::vector<int64_t> sizes) : vector(std::move(sizes)) {}
};

/// One factor for all dimensions, or one for each: 2.0, {2.0, 1.5}. Empty means none.
struct ScaleFactors : std::vector<double> {
  ScaleFactors() = default;
  ScaleFactors(double all) : vector{all} {}
  ScaleFactors(std::initializer_list<double> factors) : vector(factors) {}
  ScaleFactors(std::vector<double> factors) : vector(std::move(factors)) {}
};

struct InterpolateOptions {
  ByName by_name = {};
  OutputSize size = {};
  ScaleFactors scale_factor = {};  // instead of size: floor(input size * factor)
  Choice<SampleMode> mode = SampleMode::kNearest;
  bool align_corners = false;           // applies to kLinear and kCubic
  bool recompute_scale_factor = false;  // recompute the scale from the rounded sizes
};
/// Resizes x [n, c, ...] with one to three spatial dimensions. Throws ArgumentError unless exactly
/// one of size and scale_factor is given, is positive, and has one number or one for each spatial
/// dimension.
Variable interpolate(const Variable& x, InterpolateOptions options, Where where = Where::current());
/// Overloads with the size by position: interpolate(x, {4, 4}), interpolate(x, 4),
/// interpolate(x, {4, 4}, "bilinear").
template <std::convertible_to<const Variable&> V>
Variable interpolate(const V& x, OutputSize size, Where where = Where::current()) {
  return interpolate(x, InterpolateOptions{.size = std::move(size)}, where);
}
template <std::convertible_to<const Variable&> V>
Variable interpolate(const V& x, OutputSize size, Choice<SampleMode> mode,
                     bool align_corners = false, Where where = Where::current()) {
  return interpolate(x, {.size = std::move(size), .mode = mode, .align_corners = align_corners},
                     where);
}

/// PyTorch's order with a factor: interpolate(x, {}, 2), interpolate(x, {}, 0.5, "bilinear").
template <std::convertible_to<const Variable&> V, typename Factor>
requires std::is_arithmetic_v<Factor> Variable
interpolate(const V& x, detail::NoBound, Factor scale_factor,
            Choice<SampleMode> mode = SampleMode::kNearest, bool align_corners = false,
            Where where = Where::current()) {
  return interpolate(
      x, {.scale_factor = double(scale_factor), .mode = mode, .align_corners = align_corners},
      where);
}

/// Returns the sampling grid of an affine map, for grid_sample: theta [n, 2, 3] and size
/// [n, c, h, w] give [n, h, w, 2] of pairs (x, y); theta [n, 3, 4] and size [n, c, d, h, w] give
/// [n, d, h, w, 3] of triples (x, y, z).
Variable affine_grid(const Variable& theta, const Shape& size, bool align_corners = false,
                     Where where = Where::current());

enum class GridPadding {
  kZeros,       // 0 outside the image
  kBorder,      // the nearest pixel of the border
  kReflection,  // mirrored at the border, repeatedly if necessary
};
constexpr auto choice_names(GridPadding) {
  return std::to_array<ChoiceName<GridPadding>>({{"zeros", GridPadding::kZeros},
                                                 {"border", GridPadding::kBorder},
                                                 {"reflection", GridPadding::kReflection}});
}
struct GridSampleOptions {
  Choice<SampleMode> mode = SampleMode::kLinear;  // or kNearest (halves to even), or kCubic
  Choice<GridPadding> padding_mode = GridPadding::kZeros;
  bool align_corners = false;
};
/// Samples x [n, c, h, w] at grid [n, h', w', 2], which contains pairs (x, y) in [-1, 1], and
/// returns [n, c, h', w']. Samples x [n, c, d, h, w] at grid [n, d', h', w', 3] of triples (x, y,
/// z). A NaN position is outside the image and gives 0.
Variable grid_sample(const Variable& x, const Variable& grid, GridSampleOptions options = {},
                     Where where = Where::current());
template <std::convertible_to<Choice<SampleMode>> Mode>
Variable grid_sample(const Variable& x, const Variable& grid, const Mode& mode,
                     Choice<GridPadding> padding_mode = GridPadding::kZeros,
                     bool align_corners = false, Where where = Where::current()) {
  return grid_sample(x, grid, GridSampleOptions{mode, padding_mode, align_corners}, where);
}

/// Resampling of one dimension: result i is the sum over taps k of weight[k, i] x[index[k, i]].
struct Taps {
  int64_t count = 1;             // taps of each result
  std::vector<int64_t> index{};  // [count, results]
  std::vector<double> weight{};
  int64_t results() const;
};

namespace kernels {

// x [outer, n, inner] and y [outer, results, inner] are contiguous.
extern Kernel<void(const Tensor& x, const Taps& taps, Tensor& y)> resample;
/// The adjoint of resample: adds to x the contributions of y.
extern Kernel<void(const Tensor& y, const Taps& taps, Tensor& x)> resample_adjoint;

}  // namespace kernels
}  // namespace tapegrad
