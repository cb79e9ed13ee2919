// Members of Variable (core/tape/reduction_ops.h): reductions.
#include "core/tape/internal/call_line.h"
#include "ops/aliases.h"
#include "ops/binary.h"
#include "ops/distance.h"
#include "ops/extremes.h"
#include "ops/reduce.h"
#include "ops/sort.h"
#include "ops/statistics.h"

namespace tapegrad {

using V = Variable;

// Reductions. Dims is a list of dimensions or one dimension; none means all.
V ReductionOps::sum(Where where) const { return tapegrad::sum(self(), where); }
template <typename>
V ReductionOps::sum(const Dims& dims, bool keepdim, Where where) const {
  return tapegrad::sum(self(), dims, keepdim, where);
}
template <typename>
V ReductionOps::sum(const Dims& dims, Keepdim keep, Where where) const {
  return tapegrad::sum(self(), dims, keep.keepdim, where);
}
template V ReductionOps::sum(const Dims&, bool, Where) const;
template V ReductionOps::sum(const Dims&, Keepdim, Where) const;
V ReductionOps::sum(ReduceOptions options, Where where) const {
  return tapegrad::sum(self(), options, where);
}
template <std::same_as<DType> D>
V ReductionOps::sum(D dtype, Where where) const {
  return tapegrad::sum(self(), dtype, where);
}
template V ReductionOps::sum(DType, Where) const;
V ReductionOps::mean(Where where) const { return tapegrad::mean(self(), where); }
template <typename>
V ReductionOps::mean(const Dims& dims, bool keepdim, Where where) const {
  return tapegrad::mean(self(), dims, keepdim, where);
}
template <typename>
V ReductionOps::mean(const Dims& dims, Keepdim keep, Where where) const {
  return tapegrad::mean(self(), dims, keep.keepdim, where);
}
template V ReductionOps::mean(const Dims&, bool, Where) const;
template V ReductionOps::mean(const Dims&, Keepdim, Where) const;
V ReductionOps::mean(ReduceOptions options, Where where) const {
  return tapegrad::mean(self(), options, where);
}
template <std::same_as<DType> D>
V ReductionOps::mean(D dtype, Where where) const {
  return tapegrad::mean(self(), dtype, where);
}
template V ReductionOps::mean(DType, Where) const;
V ReductionOps::nansum(const Dims& dims, bool keepdim, Where where) const {
  return tapegrad::nansum(self(), dims, keepdim, where);
}
V ReductionOps::nanmean(const Dims& dims, bool keepdim, Where where) const {
  return tapegrad::nanmean(self(), dims, keepdim, where);
}
V ReductionOps::prod(Where where) const { return tapegrad::prod(self(), where); }
V ReductionOps::prod(int dim, bool keepdim, Where where) const {
  return tapegrad::prod(self(), dim, keepdim, where);
}
V ReductionOps::prod(int dim, Keepdim keep, Where where) const {
  return prod(dim, keep.keepdim, where);
}
V ReductionOps::prod(AlongOptions options, Where where) const {
  return tapegrad::prod(self(), options, where);
}
V ReductionOps::std(Where where) const { return tapegrad::std(self(), {}, where); }
template <typename>
V ReductionOps::std(const Dims& dims, bool unbiased, bool keepdim, Where where) const {
  return tapegrad::std(self(), dims, {.correction = unbiased, .keepdim = keepdim}, where);
}
template <typename>
V ReductionOps::std(const Dims& dims, VarOptions options, Where where) const {
  return tapegrad::std(self(), dims, options, where);
}
template V ReductionOps::std(const Dims&, bool, bool, Where) const;
template V ReductionOps::std(const Dims&, VarOptions, Where) const;
V ReductionOps::std(VarOptions options, Where where) const {
  return tapegrad::std(self(), options, where);
}
V ReductionOps::var(Where where) const { return tapegrad::var(self(), {}, where); }
template <typename>
V ReductionOps::var(const Dims& dims, bool unbiased, bool keepdim, Where where) const {
  return tapegrad::var(self(), dims, {.correction = unbiased, .keepdim = keepdim}, where);
}
template <typename>
V ReductionOps::var(const Dims& dims, VarOptions options, Where where) const {
  return tapegrad::var(self(), dims, options, where);
}
template V ReductionOps::var(const Dims&, bool, bool, Where) const;
template V ReductionOps::var(const Dims&, VarOptions, Where) const;
V ReductionOps::var(VarOptions options, Where where) const {
  return tapegrad::var(self(), options, where);
}
V ReductionOps::norm(double p, Where where) const { return tapegrad::norm(self(), p, where); }
V ReductionOps::norm(double p, const Dims& dims, bool keepdim, Where where) const {
  return tapegrad::norm(self(), p, dims, keepdim, where);
}
V ReductionOps::norm(double p, const Dims& dims, Keepdim keep, Where where) const {
  return norm(p, dims, keep.keepdim, where);
}
V ReductionOps::norm(NormOptions options, Where where) const {
  return tapegrad::norm(self(), options, where);
}
V ReductionOps::dist(const V& other, double p, Where where) const {
  return distance(self(), other, p, where);
}
template <typename>
V ReductionOps::logsumexp(const Dims& dims, bool keepdim, Where where) const {
  return tapegrad::logsumexp(self(), dims, keepdim, where);
}
template <typename>
V ReductionOps::logsumexp(const Dims& dims, Keepdim keep, Where where) const {
  return tapegrad::logsumexp(self(), dims, keep.keepdim, where);
}
template V ReductionOps::logsumexp(const Dims&, bool, Where) const;
template V ReductionOps::logsumexp(const Dims&, Keepdim, Where) const;
V ReductionOps::logsumexp(ReduceOptions options, Where where) const {
  return tapegrad::logsumexp(self(), options, where);
}
V ReductionOps::max(Where where) const { return tapegrad::max(self(), where); }
ValuesIndices ReductionOps::max(int dim, bool keepdim, Where where) const {
  return tapegrad::max(self(), dim, keepdim, where);
}
ValuesIndices ReductionOps::max(int dim, Keepdim keep, Where where) const {
  return max(dim, keep.keepdim, where);
}
ValuesIndices ReductionOps::max(AlongOptions options, Where where) const {
  return tapegrad::max(self(), options, where);
}
V ReductionOps::max(const V& other, Where where) const {
  return tapegrad::maximum({self(), where}, other);
}
V ReductionOps::min(Where where) const { return tapegrad::min(self(), where); }
ValuesIndices ReductionOps::min(int dim, bool keepdim, Where where) const {
  return tapegrad::min(self(), dim, keepdim, where);
}
ValuesIndices ReductionOps::min(int dim, Keepdim keep, Where where) const {
  return min(dim, keep.keepdim, where);
}
ValuesIndices ReductionOps::min(AlongOptions options, Where where) const {
  return tapegrad::min(self(), options, where);
}
V ReductionOps::min(const V& other, Where where) const {
  return tapegrad::minimum({self(), where}, other);
}
V ReductionOps::amax(Where where) const { return tapegrad::amax(self(), where); }
template <typename>
V ReductionOps::amax(const Dims& dims, bool keepdim, Where where) const {
  return tapegrad::amax(self(), dims, keepdim, where);
}
template <typename>
V ReductionOps::amax(const Dims& dims, Keepdim keep, Where where) const {
  return tapegrad::amax(self(), dims, keep.keepdim, where);
}
template V ReductionOps::amax(const Dims&, bool, Where) const;
template V ReductionOps::amax(const Dims&, Keepdim, Where) const;
V ReductionOps::amax(ReduceOptions options, Where where) const {
  return tapegrad::amax(self(), options, where);
}
V ReductionOps::amin(Where where) const { return tapegrad::amin(self(), where); }
template <typename>
V ReductionOps::amin(const Dims& dims, bool keepdim, Where where) const {
  return tapegrad::amin(self(), dims, keepdim, where);
}
template <typename>
V ReductionOps::amin(const Dims& dims, Keepdim keep, Where where) const {
  return tapegrad::amin(self(), dims, keep.keepdim, where);
}
template V ReductionOps::amin(const Dims&, bool, Where) const;
template V ReductionOps::amin(const Dims&, Keepdim, Where) const;
V ReductionOps::amin(ReduceOptions options, Where where) const {
  return tapegrad::amin(self(), options, where);
}
V ReductionOps::any(Where where) const { return tapegrad::any(self(), where); }
template <typename>
V ReductionOps::any(const Dims& dims, bool keepdim, Where where) const {
  return tapegrad::any(self(), dims, keepdim, where);
}
template <typename>
V ReductionOps::any(const Dims& dims, Keepdim keep, Where where) const {
  return tapegrad::any(self(), dims, keep.keepdim, where);
}
template V ReductionOps::any(const Dims&, bool, Where) const;
template V ReductionOps::any(const Dims&, Keepdim, Where) const;
V ReductionOps::any(ReduceOptions options, Where where) const {
  return tapegrad::any(self(), options, where);
}
V ReductionOps::all(Where where) const { return tapegrad::all(self(), where); }
template <typename>
V ReductionOps::all(const Dims& dims, bool keepdim, Where where) const {
  return tapegrad::all(self(), dims, keepdim, where);
}
template <typename>
V ReductionOps::all(const Dims& dims, Keepdim keep, Where where) const {
  return tapegrad::all(self(), dims, keep.keepdim, where);
}
template V ReductionOps::all(const Dims&, bool, Where) const;
template V ReductionOps::all(const Dims&, Keepdim, Where) const;
V ReductionOps::all(ReduceOptions options, Where where) const {
  return tapegrad::all(self(), options, where);
}
MinMax ReductionOps::aminmax(Where where) const { return tapegrad::aminmax(self(), where); }
MinMax ReductionOps::aminmax(int dim, bool keepdim, Where where) const {
  return tapegrad::aminmax(self(), dim, keepdim, where);
}
MinMax ReductionOps::aminmax(AlongOptions options, Where where) const {
  return tapegrad::aminmax(self(), options, where);
}
V ReductionOps::norm(detail::MatrixNormName ord, Where where) const {
  return tapegrad::norm(self(), ord.name, where);
}
V ReductionOps::argmax(Where where) const { return tapegrad::argmax(self(), {}, false, where); }
V ReductionOps::argmax(int dim, bool keepdim, Where where) const {
  return tapegrad::argmax(self(), dim, keepdim, where);
}
V ReductionOps::argmax(int dim, Keepdim keep, Where where) const {
  return argmax(dim, keep.keepdim, where);
}
V ReductionOps::argmax(AlongOptions options, Where where) const {
  return tapegrad::argmax(self(), options, where);
}
V ReductionOps::argmin(Where where) const { return tapegrad::argmin(self(), {}, false, where); }
V ReductionOps::argmin(int dim, bool keepdim, Where where) const {
  return tapegrad::argmin(self(), dim, keepdim, where);
}
V ReductionOps::argmin(int dim, Keepdim keep, Where where) const {
  return argmin(dim, keep.keepdim, where);
}
V ReductionOps::argmin(AlongOptions options, Where where) const {
  return tapegrad::argmin(self(), options, where);
}
V ReductionOps::median(Where where) const { return tapegrad::median(self(), where); }
ValuesIndices ReductionOps::median(int dim, bool keepdim, Where where) const {
  return tapegrad::median(self(), dim, keepdim, where);
}
V ReductionOps::nanmedian(Where where) const { return tapegrad::nanmedian(self(), where); }
ValuesIndices ReductionOps::nanmedian(int dim, bool keepdim, Where where) const {
  return tapegrad::nanmedian(self(), dim, keepdim, where);
}
V ReductionOps::quantile(double q, Where where) const {
  return tapegrad::quantile(self(), q, QuantileOptions{}, where);
}
V ReductionOps::quantile(const V& q, std::optional<int> dim, bool keepdim, Where where) const {
  return tapegrad::quantile(self(), q, {.dim = dim, .keepdim = keepdim}, where);
}
V ReductionOps::quantile(double q, int dim, bool keepdim, Where where) const {
  return tapegrad::quantile(self(), q, dim, keepdim, where);
}
ValuesIndices ReductionOps::kthvalue(int64_t k, int dim, bool keepdim, Where where) const {
  return tapegrad::kthvalue(self(), k, dim, keepdim, where);
}
V ReductionOps::count_nonzero(const Dims& dims, Where where) const {
  return tapegrad::count_nonzero(self(), dims, where);
}
V ReductionOps::bincount(const V& weights, int64_t minlength, Where where) const {
  return tapegrad::bincount(self(), weights, minlength, where);
}
V ReductionOps::bincount(Where where) const { return tapegrad::bincount(self(), {}, 0, where); }
V ReductionOps::histc(int64_t bins, double min, double max, Where where) const {
  return tapegrad::histc(self(), bins, min, max, where);
}
V ReductionOps::trace(Where where) const { return tapegrad::trace(self(), where); }
V ReductionOps::cov(Where where) const { return tapegrad::cov(self(), {}, where); }
V ReductionOps::corrcoef(Where where) const { return tapegrad::corrcoef(self(), where); }

}  // namespace tapegrad
