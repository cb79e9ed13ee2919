// Statistics composed of the reductions of ops/reduce.h. The rules of ops/reduce.h for dimensions
// apply.
#pragma once

#include "ops/reduce.h"
#include "ops/sort.h"

namespace tapegrad {

/// Returns the number of nonzero elements (int64). NaN counts as nonzero.
Variable count_nonzero(const Variable& x, const Dims& dims = {}, Where where = Where::current());

/// Return the sum or mean of the elements that are not NaN. The mean of no elements is NaN.
Variable nansum(const Variable& x, const Dims& dims = {}, bool keepdim = false,
                Where where = Where::current());
Variable nanmean(const Variable& x, const Dims& dims = {}, bool keepdim = false,
                 Where where = Where::current());

/// Return the median of the elements that are not NaN, along dim or of all elements: the lower of
/// the two middle elements if their number is even, NaN if there are none.
ValuesIndices nanmedian(const Variable& x, int dim, bool keepdim = false,
                        Where where = Where::current());
Variable nanmedian(const Variable& x, Where where = Where::current());
/// Returns the q-th quantile of the elements that are not NaN. Floats only.
Variable nanquantile(const Variable& x, double q, QuantileOptions options = {},
                     Where where = Where::current());
/// Overload with dim by position.
template <std::integral T>
Variable nanquantile(const Variable& x, double q, T dim, bool keepdim = false,
                     Where where = Where::current()) {
  return nanquantile(x, q, QuantileOptions{.dim = int(dim), .keepdim = keepdim}, where);
}

/// Return the integral along dim by the trapezoidal rule, for points at distance dx or at the
/// coordinates x, which broadcast. The cumulative integral has one entry less than y.
Variable trapezoid(const Variable& y, double dx = 1.0, int dim = -1,
                   Where where = Where::current());
Variable trapezoid(const Variable& y, const Variable& x, int dim = -1,
                   Where where = Where::current());
/// Options of trapezoid(y, {.dx = 0.1}) and trapezoid(y, {.x = times}).
struct TrapezoidOptions {
  ByName by_name = {};
  Variable x = {};  // in place of dx
  double dx = 1.0;
  int dim = -1;
};
Variable trapezoid(const Variable& y, const TrapezoidOptions& options,
                   Where where = Where::current());
Variable cumulative_trapezoid(const Variable& y, double dx = 1.0, int dim = -1,
                              Where where = Where::current());
Variable cumulative_trapezoid(const Variable& y, const Variable& x, int dim = -1,
                              Where where = Where::current());
Variable cumulative_trapezoid(const Variable& y, const TrapezoidOptions& options,
                              Where where = Where::current());

struct MinMax {
  static constexpr int kParts = 2;
  Variable min, max;
  Variable operator[](int part) const;
};
/// Return the minimum and maximum along dim or over all elements.
MinMax aminmax(const Variable& x, Where where = Where::current());
MinMax aminmax(const Variable& x, int dim, bool keepdim = false, Where where = Where::current());
MinMax aminmax(const Variable& x, AlongOptions options, Where where = Where::current());

struct StdMean {
  static constexpr int kParts = 2;
  Variable std, mean;
  Variable operator[](int part) const;
};
StdMean std_mean(const Variable& x, const Dims& dims = {}, VarOptions options = {},
                 Where where = Where::current());
struct VarMean {
  static constexpr int kParts = 2;
  Variable var, mean;
  Variable operator[](int part) const;
};
VarMean var_mean(const Variable& x, const Dims& dims = {}, VarOptions options = {},
                 Where where = Where::current());

// Overloads with the flag `unbiased` in place of the options.
template <std::same_as<bool> B>
StdMean std_mean(const Variable& x, const Dims& dims, B unbiased, bool keepdim = false,
                 Where where = Where::current()) {
  return std_mean(x, dims, VarOptions{.correction = unbiased, .keepdim = keepdim}, where);
}
template <std::same_as<bool> B>
VarMean var_mean(const Variable& x, const Dims& dims, B unbiased, bool keepdim = false,
                 Where where = Where::current()) {
  return var_mean(x, dims, VarOptions{.correction = unbiased, .keepdim = keepdim}, where);
}

struct CovOptions {
  int correction = 1;
  Variable fweights = {};  // number of repetitions of each observation: integers [n]
  Variable aweights = {};  // weight of each observation: [n]
};
/// Computes the covariance matrix of variables (rows) over observations (columns): [v, n] ->
/// [v, v], [n] -> []. Integers are converted to the default float dtype.
Variable cov(const Variable& x, CovOptions options = {}, Where where = Where::current());
/// Computes the correlation coefficients cov[i][j] / sqrt(cov[i][i] cov[j][j]), clamped to [-1, 1].
Variable corrcoef(const Variable& x, Where where = Where::current());

/// Counts the occurrences of 0, 1, ... in a vector of integers (int64), or sums the weights of the
/// occurrences. The result has at least minlength entries. Throws ArgumentError for a negative
/// number.
Variable bincount(const Variable& x, const Variable& weights = {}, int64_t minlength = 0,
                  Where where = Where::current());
struct BincountOptions {
  ByName by_name = {};
  Variable weights = {};
  int64_t minlength = 0;
};
Variable bincount(const Variable& x, BincountOptions options, Where where = Where::current());
/// Computes a histogram: the number of elements in each of `bins` equal parts of [min, max], in x's
/// dtype. The last part includes max. Elements outside and NaN are ignored. min = max selects the
/// range of x.
Variable histc(const Variable& x, int64_t bins = 100, double min = 0, double max = 0,
               Where where = Where::current());

}  // namespace tapegrad
