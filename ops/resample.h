// Images at other positions than their pixels: resizing, and sampling on a grid.
//
// A pixel is a square: with align_corners = false the image reaches from -1/2 to size - 1/2 in
// pixels, and -1 and 1 of a grid are its outer edges; with true both mean the centres of the first
// and the last pixel. Sixteen-bit floats are computed in float.
#pragma once

#include <optional>
#include <vector>

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

enum class SampleMode {
  kNearest,       // the pixel at floor(i / scale)
  kNearestExact,  // the pixel in which the centre lies
  kLinear,        // between two pixels in each dimension: linear, bilinear, trilinear
  kCubic,         // over four (Keys' kernel with a = -0.75); of [n, c, h, w] only
};

struct InterpolateOptions {
  std::vector<int64_t> size = {};           // of the result, one number for all or one for each
  std::optional<double> scale_factor = {};  // or this: the size is floor(input size * factor)
  SampleMode mode = SampleMode::kNearest;
  bool align_corners = false;           // of kLinear and kCubic
  bool recompute_scale_factor = false;  // from the sizes, which floor() may have changed
};
/// x [n, c, ...] with one to three further dimensions, resized. ArgumentError unless exactly one
/// of size and scale_factor is given and positive.
Variable interpolate(const Variable& x, InterpolateOptions options, Where where = Where::current());

/// Positions of affine maps: theta [n, 2, 3] and size [n, c, h, w] give [n, h, w, 2], pairs (x, y);
/// theta [n, 3, 4] and size [n, c, d, h, w] give [n, d, h, w, 3]. To be used with grid_sample.
Variable affine_grid(const Variable& theta, const Shape& size, bool align_corners = false,
                     Where where = Where::current());

enum class GridPadding {
  kZeros,       // 0 outside
  kBorder,      // the nearest pixel of the border
  kReflection,  // mirrored at the border, as often as it takes
};
struct GridSampleOptions {
  SampleMode mode = SampleMode::kLinear;  // or kNearest (halves to even), or kCubic
  GridPadding padding_mode = GridPadding::kZeros;
  bool align_corners = false;
};
/// x [n, c, h, w] at the positions of grid [n, h', w', 2], pairs (x, y) in [-1, 1] over the image:
/// [n, c, h', w']; or x [n, c, d, h, w] at grid [n, d', h', w', 3], triples (x, y, z). A position
/// that is NaN lies outside, and gives 0.
Variable grid_sample(const Variable& x, const Variable& grid, GridSampleOptions options = {},
                     Where where = Where::current());

/// One dimension resampled: result i is the sum over taps k of weight[k, i] x[index[k, i]].
struct Taps {
  int64_t count = 1;             // for each result
  std::vector<int64_t> index{};  // [count, results]
  std::vector<double> weight{};
  int64_t results() const { return int64_t(index.size()) / count; }
};

namespace kernels {

// Both are contiguous: x [outer, n, inner], y [outer, results, inner].
extern Kernel<void(const Tensor& x, const Taps& taps, Tensor& y)> resample;
/// Its adjoint: x receives the sums.
extern Kernel<void(const Tensor& y, const Taps& taps, Tensor& x)> resample_adjoint;

}  // namespace kernels
}  // namespace tapegrad
