// Resize and Upsample: multiplies each dimension by a matrix of weights, from the formulas of the
// standard.
#include <cmath>

#include "ops/create.h"
#include "ops/matmul.h"
#include "ops/view.h"
#include "tests/onnx_conformance/value.h"

namespace tapegrad::onnx_conformance {
namespace {

using N = const Node&;

/// Resizing of one dimension.
struct Resampling {
  int64_t from, to;
  double scale;               // requested size / given size; `to` may be rounded down
  double start = 0, end = 1;  // range of a crop
  std::string mode, nearest, coordinates;
  double cubic = -0.75;
  bool exclude_outside = false;

  double position(int64_t i) const {
    const double at = double(i);
    const double size = double(from) * scale;
    if (coordinates == "align_corners") return size == 1 ? 0 : at * double(from - 1) / (size - 1);
    if (coordinates == "asymmetric") return at / scale;
    if (coordinates == "tf_half_pixel_for_nn") return (at + 0.5) / scale;
    if (coordinates == "pytorch_half_pixel") return to > 1 ? (at + 0.5) / scale - 0.5 : 0;
    if (coordinates == "tf_crop_and_resize")
      return to > 1
                 ? start * double(from - 1) + at * (end - start) * double(from - 1) / double(to - 1)
                 : 0.5 * (start + end) * double(from - 1);
    return (at + 0.5) / scale - 0.5;
  }
  bool is_outside(double position) const {
    return coordinates == "tf_crop_and_resize" && (position < 0 || position > double(from - 1));
  }
  double rounded(double position) const {
    if (nearest == "floor") return std::floor(position);
    if (nearest == "ceil") return std::ceil(position);
    if (nearest == "round_prefer_ceil") return std::floor(position + 0.5);
    return std::ceil(position - 0.5);
  }

  /// Returns weights [to, from]; zeros for a position outside of a crop.
  std::vector<double> weights() const {
    std::vector<double> matrix(size_t(to * from));
    for (int64_t i = 0; i < to; ++i) {
      const double at = position(i);
      if (is_outside(at)) continue;
      double* row = matrix.data() + i * from;
      const auto give = [&](double index, double weight) {
        if (exclude_outside && (index < 0 || index > double(from - 1))) return;
        row[int64_t(std::clamp(index, 0.0, double(from - 1)))] += weight;
      };
      const double first = std::floor(at), t = at - first;
      if (mode == "nearest") {
        give(rounded(at), 1);
      } else if (mode == "linear") {
        give(first, 1 - t);
        give(first + 1, t);
      } else {
        const double a = cubic;
        for (int k = -1; k <= 2; ++k) {
          const double d = std::abs(t - k);
          give(first + k,
               d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : (((d - 5) * d + 8) * d - 4) * a);
        }
      }
      double sum = 0;
      for (int64_t j = 0; j < from; ++j) sum += row[j];
      if (exclude_outside)
        for (int64_t j = 0; j < from; ++j) row[j] /= sum;
    }
    return matrix;
  }
};

Variable resampled(const Variable& x, int dim, const Resampling& to, double outside) {
  const Variable matrix = tensor(to.weights(), {to.to, to.from}, {.dtype = f64});
  Variable y = transpose(matmul(transpose(x, dim, -1), t(matrix)), dim, -1);
  for (int64_t i = 0; i < to.to; ++i)
    if (to.is_outside(to.position(i))) {
      Variable slice = select(y, dim, i);
      fill_(slice, outside);
    }
  return y;
}

Variable resized(N n) {
  const bool upsample = n.op == "Upsample";
  const size_t at = upsample ? 1 : 2;
  std::vector<double> scales, crop;
  if (n.has(at) && n[at].numel() > 0) scales = n[at].to_vector<double>();
  if (!upsample && n.has(1)) crop = n[1].to_vector<double>();
  const Ints sizes = n.ints_at(3, {});
  Variable y = n[0].to(f64);
  const size_t rank = size_t(y.rank());
  for (size_t i = 0; i < rank; ++i) {
    const int64_t from = y.size(int(i));
    const double scale = sizes.empty() ? scales[i] : double(sizes[i]) / double(from);
    Resampling to{.from = from,
                  .to = sizes.empty() ? int64_t(std::floor(double(from) * scale)) : sizes[i],
                  .scale = scale,
                  .mode = n.text("mode", "nearest"),
                  .nearest = n.text("nearest_mode", upsample ? "floor" : "round_prefer_floor"),
                  .coordinates = n.text("coordinate_transformation_mode",
                                        upsample ? "asymmetric" : "half_pixel"),
                  .cubic = n.real("cubic_coeff_a", -0.75),
                  .exclude_outside = n.flag("exclude_outside", false)};
    if (to.coordinates == "tf_crop_and_resize") {
      to.start = crop.at(i);
      to.end = crop.at(i + rank);
    } else if (from == to.to) {
      continue;
    }
    y = resampled(y, int(i), to, n.real("extrapolation_value", 0));
  }
  return y.to(n[0].dtype());
}

}  // namespace

void add_resizing(Operators& table) {
  add(table, "Resize", resized);
  add(table, "Upsample", resized);
}

}  // namespace tapegrad::onnx_conformance
