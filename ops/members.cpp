// Members of Variable (core/tape/variable_ops.h): reductions, sorting, shapes and indexing.
#include "core/tape/internal/call_line.h"
#include "core/tape/view.h"
#include "ops/arrange.h"
#include "ops/binary.h"
#include "ops/composed.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/distance.h"
#include "ops/extremes.h"
#include "ops/index.h"
#include "ops/internal/operands.h"
#include "ops/names.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/scan.h"
#include "ops/scatter.h"
#include "ops/sort.h"
#include "ops/statistics.h"
#include "ops/subscript.h"
#include "ops/view.h"

namespace tapegrad {

using V = Variable;

void V::operator=(const V& values) && {
  detail::require_seen("=", *this);
  tapegrad::copy_(*this, values);
}
void V::operator=(const Operand& values) && {
  detail::require_seen("=", *this);
  if (values.variable != nullptr)
    tapegrad::copy_(*this, *values.variable, values.where);
  else
    tapegrad::fill_(*this, values.number, values.where);
}

V::Part::Part(V value, const V& of, std::vector<Subscript> subscripts, Where where)
    : V(std::move(value)),
      of_(of),
      subscripts_(std::make_shared<const std::vector<Subscript>>(std::move(subscripts))),
      where_(where) {}
V::Part::~Part() = default;
V::Part::Part(const Part&) = default;
V::Part::Part(Part&&) noexcept = default;
V::Part& V::Part::operator=(const Part&) & = default;
V::Part& V::Part::operator=(Part&&) & noexcept = default;

bool V::Part::is_view() const { return value().shares_storage(of_.value()); }
void V::Part::put(const Operand& values) {
  const ErrorLine line(where_.line() != 0 ? where_ : values.where);
  if (!is_view())
    tapegrad::index_put_(of_, *subscripts_, values);
  else if (values.variable != nullptr)
    tapegrad::copy_(*this, *values.variable, values.where);
  else
    tapegrad::fill_(*this, values.number, values.where);
}
void V::Part::operator=(const V& values) && { put(values); }
void V::Part::operator=(const Part& values) && { put(values); }
void V::Part::operator=(const Operand& values) && { put(values); }
void operator+=(V::Part&& part, const Operand& b) {
  part.is_view() ? void(tapegrad::add_(part, b)) : part.put(part + b);
}
void operator-=(V::Part&& part, const Operand& b) {
  part.is_view() ? void(tapegrad::sub_(part, b)) : part.put(part - b);
}
void operator*=(V::Part&& part, const Operand& b) {
  part.is_view() ? void(tapegrad::mul_(part, b)) : part.put(part * b);
}
void operator/=(V::Part&& part, const Operand& b) {
  part.is_view() ? void(tapegrad::div_(part, b)) : part.put(part / b);
}

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

// Running sums, sorting.
V VariableOps::cumsum(int dim, Where where) const { return tapegrad::cumsum(self(), dim, where); }
V VariableOps::cumprod(int dim, Where where) const { return tapegrad::cumprod(self(), dim, where); }
V VariableOps::logcumsumexp(int dim, Where where) const {
  return tapegrad::logcumsumexp(self(), dim, where);
}
ValuesIndices VariableOps::cummax(int dim, Where where) const {
  return tapegrad::cummax(self(), dim, where);
}
ValuesIndices VariableOps::cummin(int dim, Where where) const {
  return tapegrad::cummin(self(), dim, where);
}
V VariableOps::diff(int64_t n, int dim, Where where) const {
  return tapegrad::diff(self(), n, dim, {}, {}, where);
}
ValuesIndices VariableOps::sort(int dim, bool descending, Where where) const {
  return tapegrad::sort(self(), dim, descending, where);
}
ValuesIndices VariableOps::sort(SortOptions options, Where where) const {
  return tapegrad::sort(self(), options, where);
}
V VariableOps::argsort(SortOptions options, Where where) const {
  return tapegrad::argsort(self(), options, where);
}
V VariableOps::argsort(int dim, bool descending, Where where) const {
  return tapegrad::argsort(self(), dim, descending, where);
}
V VariableOps::msort(Where where) const { return tapegrad::msort(self(), where); }
ValuesIndices VariableOps::topk(int64_t k, int dim, bool largest, Where where) const {
  return tapegrad::topk(self(), k, dim, largest, where);
}
ValuesIndices VariableOps::topk(int64_t k, int dim, bool largest, bool sorted, Where where) const {
  return tapegrad::topk(self(), k, dim, largest, sorted, where);
}
Unique VariableOps::unique(Where where) const { return tapegrad::unique(self(), where); }
Unique VariableOps::unique(int dim, Where where) const {
  return tapegrad::unique(self(), dim, where);
}

// Shapes. x.view(2, 3) is x.view({2, 3}).
V VariableOps::reshape(const Shape& shape, Where where) const {
  return tapegrad::reshape(self(), shape, where);
}
V VariableOps::view(const Shape& shape, Where where) const {
  return tapegrad::view(self(), shape, where);
}
V VariableOps::reshape_as(const V& other, Where where) const {
  return tapegrad::reshape_as(self(), other, where);
}
V VariableOps::view_as(const V& other, Where where) const {
  return tapegrad::view_as(self(), other, where);
}
V VariableOps::expand_as(const V& other, Where where) const {
  return tapegrad::expand_as(self(), other, where);
}
V VariableOps::flatten(int start_dim, int end_dim, Where where) const {
  return tapegrad::flatten(self(), start_dim, end_dim, where);
}
V VariableOps::flatten(FlattenOptions options, Where where) const {
  return tapegrad::flatten(self(), options, where);
}
V VariableOps::ravel(Where where) const { return tapegrad::ravel(self(), where); }
V VariableOps::unflatten(int dim, const Shape& sizes, Where where) const {
  return tapegrad::unflatten(self(), dim, sizes, where);
}
V VariableOps::squeeze(Where where) const { return tapegrad::squeeze(self(), where); }
V VariableOps::squeeze(int dim, Where where) const { return tapegrad::squeeze(self(), dim, where); }
V VariableOps::unsqueeze(int dim, Where where) const {
  return tapegrad::unsqueeze(self(), dim, where);
}
V VariableOps::transpose(int dim0, int dim1, Where where) const {
  return tapegrad::transpose(self(), dim0, dim1, where);
}
V VariableOps::swapaxes(int dim0, int dim1, Where where) const {
  return tapegrad::swapaxes(self(), dim0, dim1, where);
}
V VariableOps::swapdims(int dim0, int dim1, Where where) const {
  return tapegrad::swapdims(self(), dim0, dim1, where);
}
V VariableOps::t(Where where) const { return tapegrad::t(self(), where); }
V VariableOps::mT(Where where) const { return transpose(-2, -1, where); }
V VariableOps::renorm(double p, int dim, double maxnorm, Where where) const {
  return tapegrad::renorm(self(), p, dim, maxnorm, where);
}
ValuesIndices VariableOps::mode(int dim, bool keepdim, Where where) const {
  return tapegrad::mode(self(), dim, keepdim, where);
}
Unique VariableOps::unique_consecutive(Where where) const {
  return tapegrad::unique_consecutive(self(), where);
}
std::vector<V> VariableOps::tensor_split(const std::vector<int64_t>& indices, int dim,
                                         Where where) const {
  return tapegrad::tensor_split(self(), indices, dim, where);
}
std::vector<V> VariableOps::hsplit(int64_t sections, Where where) const {
  return tapegrad::hsplit(self(), sections, where);
}
std::vector<V> VariableOps::vsplit(int64_t sections, Where where) const {
  return tapegrad::vsplit(self(), sections, where);
}
V VariableOps::select_scatter(const V& source, int dim, int64_t index, Where where) const {
  return tapegrad::select_scatter(self(), source, dim, index, where);
}
V VariableOps::slice_scatter(const V& source, int dim, int64_t start, int64_t end, int64_t step,
                             Where where) const {
  return tapegrad::slice_scatter(self(), source, dim, start, end, step, where);
}
V VariableOps::diagonal_scatter(const V& source, int64_t offset, int dim1, int dim2,
                                Where where) const {
  return tapegrad::diagonal_scatter(self(), source, offset, dim1, dim2, where);
}
ValuesIndices VariableOps::sort(int dim, SortOptions options, Where where) const {
  return tapegrad::sort(self(), dim, options, where);
}
ValuesIndices VariableOps::topk(int64_t k, TopkOptions options, Where where) const {
  return tapegrad::topk(self(), k, options, where);
}
V VariableOps::half(Where where) const { return self().to(f16, where); }
V VariableOps::bfloat16(Where where) const { return self().to(bf16, where); }
V VariableOps::type(DType dtype, Where where) const { return self().to(dtype, where); }
V VariableOps::new_zeros(const Shape& shape) const { return new_full(shape, 0); }
V VariableOps::new_ones(const Shape& shape) const { return new_full(shape, 1); }
V VariableOps::new_full(const Shape& shape, Number value) const {
  return full(shape, value, {.dtype = self().dtype(), .device = self().device()});
}
int64_t V::stride(int dim) const { return value().strides()[normalize_dim("stride", dim, rank())]; }
torch::TensorOptions VariableOps::options() const {
  return torch::TensorOptions(self().dtype()).device(self().device());
}
V VariableOps::new_empty(const Shape& shape) const {
  return empty(shape, {.dtype = self().dtype(), .device = self().device()});
}
V V::operator[](const Slice& slice) const { return at(*this, {slice}); }
V::Part V::operator[](std::initializer_list<Subscript> subscripts) const {
  return {at(*this, subscripts), *this, subscripts};
}
V VariableOps::permute(const Dims& dims, Where where) const {
  return tapegrad::permute(self(), dims, where);
}
V VariableOps::movedim(const Dims& source, const Dims& destination, Where where) const {
  return tapegrad::movedim(self(), source, destination, where);
}
V VariableOps::moveaxis(const Dims& source, const Dims& destination, Where where) const {
  return tapegrad::moveaxis(self(), source, destination, where);
}
V VariableOps::expand(const Shape& shape, Where where) const {
  return tapegrad::expand(self(), shape, where);
}
V VariableOps::broadcast_to(const Shape& shape, Where where) const {
  return tapegrad::broadcast_to(self(), shape, where);
}
V VariableOps::repeat(const Dims& times, Where where) const {
  return tapegrad::repeat(self(), times, where);
}
V VariableOps::tile(const Dims& times, Where where) const {
  return tapegrad::tile(self(), times, where);
}
V VariableOps::repeat_interleave(int64_t times, Where where) const {
  return tapegrad::repeat_interleave(self(), times, where);
}
V VariableOps::repeat_interleave(int64_t times, int dim, Where where) const {
  return tapegrad::repeat_interleave(self(), times, dim, where);
}
V VariableOps::repeat_interleave(const V& times, int dim, Where where) const {
  return tapegrad::repeat_interleave(self(), times, dim, where);
}
V VariableOps::repeat_interleave(const V& times, Where where) const {
  return tapegrad::repeat_interleave(self(), times, where);
}
V VariableOps::select(int dim, int64_t index, Where where) const {
  return tapegrad::select(self(), dim, index, where);
}
V VariableOps::slice(int dim, int64_t start, int64_t end, int64_t step, Where where) const {
  return tapegrad::slice(self(), dim, start, end, step, where);
}
V VariableOps::narrow(int dim, int64_t start, int64_t length, Where where) const {
  return tapegrad::narrow(self(), dim, start, length, where);
}
std::vector<V> VariableOps::split(int64_t size, int dim, Where where) const {
  return tapegrad::split(self(), size, dim, where);
}
std::vector<V> VariableOps::split(const std::vector<int64_t>& sizes, int dim, Where where) const {
  return tapegrad::split(self(), sizes, dim, where);
}
std::vector<V> VariableOps::chunk(int64_t chunks, int dim, Where where) const {
  return tapegrad::chunk(self(), chunks, dim, where);
}
std::vector<V> VariableOps::tensor_split(int64_t sections, int dim, Where where) const {
  return tapegrad::tensor_split(self(), sections, dim, where);
}
std::vector<V> VariableOps::unbind(int dim, Where where) const {
  return tapegrad::unbind(self(), dim, where);
}
V VariableOps::flip(const Dims& dims, Where where) const {
  return tapegrad::flip(self(), dims, where);
}
V VariableOps::fliplr(Where where) const { return tapegrad::fliplr(self(), where); }
V VariableOps::flipud(Where where) const { return tapegrad::flipud(self(), where); }
V VariableOps::roll(const Dims& shifts, const Dims& dims, Where where) const {
  return tapegrad::roll(self(), shifts, dims, where);
}
V VariableOps::rot90(int64_t k, Where where) const {
  return tapegrad::rot90(self(), k, {0, 1}, where);
}
V VariableOps::rot90(int64_t k, const Dims& dims, Where where) const {
  return tapegrad::rot90(self(), k, dims, where);
}
V VariableOps::diag(int64_t diagonal, Where where) const {
  return tapegrad::diag(self(), diagonal, where);
}
V VariableOps::diagonal(int64_t offset, int dim1, int dim2, Where where) const {
  return tapegrad::diagonal(self(), offset, dim1, dim2, where);
}
V VariableOps::diag_embed(int64_t offset, int dim1, int dim2, Where where) const {
  return tapegrad::diag_embed(self(), offset, dim1, dim2, where);
}
V VariableOps::tril(int64_t diagonal, Where where) const {
  return tapegrad::tril(self(), diagonal, where);
}
V VariableOps::triu(int64_t diagonal, Where where) const {
  return tapegrad::triu(self(), diagonal, where);
}
V VariableOps::clone(Where where) const { return tapegrad::clone(self(), where); }

// Indexing.
V VariableOps::index(const std::vector<Subscript>& subscripts, Where where) const {
  return at(self(), subscripts, where);
}
V VariableOps::index_put(const std::vector<Subscript>& subscripts, const Operand& values,
                         bool accumulate) const {
  return tapegrad::index_put(self(), subscripts, values, accumulate);
}
V VariableOps::gather(int dim, const V& index, Where where) const {
  return tapegrad::gather(self(), dim, index, where);
}
V VariableOps::index_select(int dim, const V& index, Where where) const {
  return tapegrad::index_select(self(), dim, index, where);
}
V VariableOps::take(const V& index, Where where) const {
  return tapegrad::take(self(), index, where);
}
V VariableOps::take_along_dim(const V& index, int dim, Where where) const {
  return tapegrad::take_along_dim(self(), index, dim, where);
}
V VariableOps::index_add(int dim, const V& index, const V& source, double alpha,
                         Where where) const {
  return tapegrad::index_add(self(), dim, index, source, alpha, where);
}
V VariableOps::index_copy(int dim, const V& index, const V& source, Where where) const {
  return tapegrad::index_copy(self(), dim, index, source, where);
}
V VariableOps::index_fill(int dim, const V& index, Number value, Where where) const {
  return tapegrad::index_fill(self(), dim, index, value, where);
}
V VariableOps::scatter(int dim, const V& index, const V& source, Where where) const {
  return tapegrad::scatter(self(), dim, index, source, where);
}
V VariableOps::scatter(int dim, const V& index, Number value, Where where) const {
  return tapegrad::scatter(self(), dim, index, value, where);
}
V VariableOps::scatter(int dim, const V& index, const V& source, std::string_view reduce,
                       Where where) const {
  return tapegrad::scatter(self(), dim, index, source, reduce, where);
}
V VariableOps::scatter_add(int dim, const V& index, const V& source, Where where) const {
  return tapegrad::scatter_add(self(), dim, index, source, where);
}
V VariableOps::masked_select(const V& mask, Where where) const {
  return tapegrad::masked_select(self(), mask, where);
}
V VariableOps::masked_scatter(const V& mask, const V& source, Where where) const {
  return tapegrad::masked_scatter(self(), mask, source, where);
}
V VariableOps::where(const V& condition, const Operand& other) const {
  return tapegrad::where(condition, {self(), other.where}, other);
}
V VariableOps::nonzero(Where where) const { return tapegrad::nonzero(self(), where); }
V VariableOps::argwhere(Where where) const { return tapegrad::argwhere(self(), where); }

V V::rows_at(const std::vector<int64_t>& rows) const {
  return index({Variable(Tensor::from<int64_t>(rows, {int64_t(rows.size())}).to(device()))});
}
V::Part V::operator[](detail::VariableHere i) const {
  return {at(*this, {i.x}, i.where), *this, {i.x}, i.where};
}
V VariableOps::contiguous(Where where) const {
  return self().value(where).is_contiguous() ? self() : tapegrad::clone(self(), where);
}
V VariableOps::masked_fill(const V& mask, const Operand& value) const {
  if (value.variable != nullptr)
    return tapegrad::masked_fill(self(), mask, *value.variable, value.where);
  return tapegrad::masked_fill(self(), mask, value.number, value.where);
}
V VariableOps::scatter_reduce(int dim, const V& index, const V& source, std::string_view reduce,
                              bool include_self, Where where) const {
  return tapegrad::scatter_reduce(self(), dim, index, source, reduce, include_self, where);
}
V VariableOps::scatter_reduce(int dim, const V& index, const V& source, std::string_view reduce,
                              IncludeSelfOption option, Where where) const {
  return scatter_reduce(dim, index, source, reduce, option.include_self, where);
}

}  // namespace tapegrad
