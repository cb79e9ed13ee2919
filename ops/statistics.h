// Statistics made of the reductions of ops/reduce.h, whose rules for dimensions hold here too.
#pragma once

#include "ops/reduce.h"

namespace tapegrad {

/// How many elements are not 0 (int64); NaN counts.
Variable count_nonzero(const Variable& x, const Dims& dims = {}, Where where = Where::current());

/// The sum, or the mean, of what is not NaN. The mean of nothing is NaN.
Variable nansum(const Variable& x, const Dims& dims = {}, bool keepdim = false,
                Where where = Where::current());
Variable nanmean(const Variable& x, const Dims& dims = {}, bool keepdim = false,
                 Where where = Where::current());

struct MinMax {
  Variable min, max;
};
/// amin and amax, along dim or over all.
MinMax aminmax(const Variable& x, Where where = Where::current());
MinMax aminmax(const Variable& x, int dim, bool keepdim = false, Where where = Where::current());

struct StdMean {
  Variable std, mean;
};
StdMean std_mean(const Variable& x, const Dims& dims = {}, VarOptions options = {},
                 Where where = Where::current());
struct VarMean {
  Variable var, mean;
};
VarMean var_mean(const Variable& x, const Dims& dims = {}, VarOptions options = {},
                 Where where = Where::current());

struct CovOptions {
  int correction = 1;
  Variable fweights = {};  // how often each observation counts, whole numbers [n]
  Variable aweights = {};  // how much each observation counts, [n]
};
/// The covariances of variables (rows) over observations (columns): [v, n] -> [v, v], [n] -> [].
/// Integers are computed in the default float type.
Variable cov(const Variable& x, CovOptions options = {}, Where where = Where::current());
/// cov[i][j] / sqrt(cov[i][i] cov[j][j]), kept in [-1, 1].
Variable corrcoef(const Variable& x, Where where = Where::current());

/// How often each of 0, 1, ... is among the whole numbers of a vector (int64), or the sum of their
/// weights. At least minlength entries. ArgumentError for a negative number.
Variable bincount(const Variable& x, const Variable& weights = {}, int64_t minlength = 0,
                  Where where = Where::current());
/// How many elements lie in each of `bins` parts of [min, max], the last one closed, in x's type;
/// others and NaN are left out. min = max stands for the extremes of x.
Variable histc(const Variable& x, int64_t bins = 100, double min = 0, double max = 0,
               Where where = Where::current());

}  // namespace tapegrad
