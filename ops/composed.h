// Functions that are composed of other ops and have no row in the catalog. Their gradients are
// those of the ops. Alternative names of ops are in ops/aliases.h.
#pragma once

#include <optional>
#include <utility>

#include "core/base/by_name.h"
#include "core/base/generator.h"
#include "ops/create.h"
#include "ops/extremes.h"
#include "ops/sort.h"

namespace tapegrad {

/// Returns the most frequent value along dim (the smallest if there are several) and the index of
/// its last occurrence. The index has no gradient. Reads the values on the host.
ValuesIndices mode(const Variable& x, int dim = -1, bool keepdim = false,
                   Where where = Where::current());
/// Returns x with each slice along dim whose p-norm exceeds maxnorm scaled to p-norm maxnorm.
Variable renorm(const Variable& x, double p, int dim, double maxnorm,
                Where where = Where::current());
/// Returns the elements without those that equal their predecessor. No gradient.
Unique unique_consecutive(const Variable& x, Where where = Where::current());

/// Returns the shape of an elementwise result of operands of these shapes. Throws ShapeError if
/// they do not broadcast.
Shape broadcast_shapes(const Shape& a, const Shape& b, Where where = Where::current());

struct PcaLowrank {
  static constexpr int kParts = 3;
  Variable u, s, v;
  Variable operator[](int part) const { return detail::part_at(*this, part); }
};
/// Returns the first q principal components of the rows of x [n, d]: x, minus its mean if `center`,
/// is about U diag(S) V^T, with V [d, q]. Computed by linalg::svd, without random numbers. q
/// defaults to 6, or to the smaller size of x if that is less than 6.
PcaLowrank pca_lowrank(const Variable& x, std::optional<int64_t> q = {}, bool center = true,
                       Where where = Where::current());

/// Returns the subsets of r elements of a vector, in the order of their positions: [subsets, r].
/// With replacement, an element may occur several times in a subset.
Variable combinations(const Variable& x, int64_t r = 2, bool with_replacement = false,
                      Where where = Where::current());

/// Removes those of the given dimensions whose size is 1. Returns a view. Throws ArgumentError for
/// a dimension that is given twice.
Variable squeeze(const Variable& x, const Dims& dims, Where where = Where::current());

struct Histogram {
  static constexpr int kParts = 2;
  Variable hist, bin_edges;
  Variable operator[](int part) const { return detail::part_at(*this, part); }
};
/// Returns the number of elements in each of `bins` equal intervals from min to max. If min equals
/// max, the interval is the range of the elements.
Histogram histogram(const Variable& x, int64_t bins = 10, double min = 0, double max = 0,
                    Where where = Where::current());
/// Options of histogram(x, 10, {.range = {0, 1}}).
struct HistogramOptions {
  ByName by_name = {};
  std::pair<double, double> range = {0, 0};
};
inline Histogram histogram(const Variable& x, int64_t bins, HistogramOptions options,
                           Where where = Where::current()) {
  return histogram(x, bins, options.range.first, options.range.second, where);
}

/// Return windows of n values. The period is n steps if `periodic` (for a DFT), else n - 1 steps.
Variable hann_window(int64_t n, bool periodic = true, TensorOptions options = {});
Variable hamming_window(int64_t n, bool periodic = true, TensorOptions options = {});
Variable blackman_window(int64_t n, bool periodic = true, TensorOptions options = {});
Variable bartlett_window(int64_t n, bool periodic = true, TensorOptions options = {});
/// Returns I0(beta sqrt(1 - t^2)) / I0(beta) for t from -1 to 1, where I0 is a modified Bessel
/// function.
Variable kaiser_window(int64_t n, bool periodic = true, double beta = 12.0,
                       TensorOptions options = {});

/// Returns dy / dx along each of dims (default: all), for points at this distance. Uses central
/// differences inside and one-sided differences of order edge_order, 1 or 2, at both ends. Throws
/// ArgumentError for a dimension of fewer than edge_order + 1 elements.
std::vector<Variable> gradient(const Variable& y, double spacing = 1.0, const Dims& dims = {},
                               int edge_order = 1, Where where = Where::current());

/// Returns the coordinates of elements of a tensor of this shape from their row-major positions:
/// one Variable (int64) per dimension. Throws IndexError for a position outside of the tensor.
std::vector<Variable> unravel_index(const Variable& positions, const Shape& shape,
                                    Where where = Where::current());

namespace fft {
/// Return the frequencies of the outputs of fft and rfft of n samples at distance d.
Variable fftfreq(int64_t n, double d = 1.0, TensorOptions options = {});
Variable rfftfreq(int64_t n, double d = 1.0, TensorOptions options = {});
}  // namespace fft

/// Returns y[b, o] = x1[b, :] weight[o, :, :] x2[b, :] + bias[o].
Variable bilinear(const Variable& x1, const Variable& x2, const Variable& weight,
                  const Variable& bias = {}, Where where = Where::current());
/// Returns x for x >= 0, else x times a slope. In training the slope of each element is drawn from
/// [lower, upper); otherwise it is the mean of both bounds.
Variable rrelu(const Variable& x, double lower = 1.0 / 8, double upper = 1.0 / 3,
               bool training = false, RandomGenerator& generator = default_generator(),
               Where where = Where::current());
/// Returns the distances between the rows of x [n, d], one for each pair: [n (n - 1) / 2].
Variable pdist(const Variable& x, double p = 2.0, Where where = Where::current());
/// Returns the inverse of L L^T, or of U^T U if `upper`, for the factor returned by cholesky().
Variable cholesky_inverse(const Variable& factor, bool upper = false,
                          Where where = Where::current());

namespace linalg {
Variable vecdot(const Variable& a, const Variable& b, int dim = -1, Where where = Where::current());
/// Returns the ratio of the largest to the smallest singular value.
Variable cond(const Variable& x, Where where = Where::current());
/// Returns the number of singular values above rtol times the largest. rtol defaults to eps
/// max(rows, columns).
Variable matrix_rank(const Variable& x, std::optional<double> rtol = {},
                     Where where = Where::current());
}  // namespace linalg

/// Returns -x log(x); 0 for x = 0, and -inf for x < 0.
Variable entr(const Variable& x, Where where = Where::current());
/// Return the distribution function of the standard normal distribution, and its inverse.
Variable ndtr(const Variable& x, Where where = Where::current());
Variable ndtri(const Variable& x, Where where = Where::current());
/// Returns the logarithm of the multivariate gamma function of dimension p.
Variable mvlgamma(const Variable& x, int64_t p, Where where = Where::current());

}  // namespace tapegrad
