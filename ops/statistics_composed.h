// Statistics and differences composed of other ops. They have no row in the catalog.
#pragma once

#include <utility>
#include <vector>

#include "core/base/by_name.h"
#include "ops/extremes.h"
#include "ops/sort.h"

namespace tapegrad {

/// Returns the most frequent value along dim (the smallest if there are several) and the index of
/// its last occurrence. The index has no gradient. Reads the values on the host.
ValuesIndices mode(const Variable& x, int dim = -1, bool keepdim = false,
                   Where where = Where::current());

/// Returns the elements without those that equal their predecessor. No gradient.
Unique unique_consecutive(const Variable& x, Where where = Where::current());

struct Histogram {
  static constexpr int kParts = 2;
  Variable hist, bin_edges;
  Variable operator[](int part) const;
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
Histogram histogram(const Variable& x, int64_t bins, HistogramOptions options,
                    Where where = Where::current());

/// Returns x with each slice along dim whose p-norm exceeds maxnorm scaled to p-norm maxnorm.
Variable renorm(const Variable& x, double p, int dim, double maxnorm,
                Where where = Where::current());

/// Returns dy / dx along each of dims (default: all), for points at this distance. Uses central
/// differences inside and one-sided differences of order edge_order, 1 or 2, at both ends. Throws
/// ArgumentError for a dimension of fewer than edge_order + 1 elements.
std::vector<Variable> gradient(const Variable& y, double spacing = 1.0, const Dims& dims = {},
                               int edge_order = 1, Where where = Where::current());

}  // namespace tapegrad
