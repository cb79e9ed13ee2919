// Members of Variable (core/tape/variable_ops.h): sorting, shapes and indexing.
#include "core/base/internal/call_recorder.h"
#include "core/base/internal/step_observer.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/view.h"
#include "ops/aliases.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/distance.h"
#include "ops/extremes.h"
#include "ops/index.h"
#include "ops/internal/index_checks.h"
#include "ops/internal/operands.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/replace.h"
#include "ops/reshape.h"
#include "ops/scan.h"
#include "ops/scatter.h"
#include "ops/sort.h"
#include "ops/statistics.h"
#include "ops/statistics_composed.h"
#include "ops/subscript.h"
#include "ops/view.h"

namespace tapegrad {

using V = Variable;

namespace {
/// Writes values over a view, for x[i] = values.
void assign(V& view, const Operand& values) {
  if (values.variable == nullptr)
    fill_(view, values.number, values.where);
  else if (values.variable->rank() > view.rank())
    copy_(view, detail::without_leading_ones(*values.variable, values.where), values.where);
  else
    copy_(view, *values.variable, values.where);
}
}  // namespace

void V::operator=(const Operand& values) && {
  detail::require_seen("=", *this);
  assign(*this, values);
}

/// The elements that a Part refers to, and the calls that selected them if a step is recorded.
struct V::Part::Selection {
  std::vector<Subscript> subscripts;
  CallRecorder* recorder = detail::context.recorder;
  size_t first_call = recorder != nullptr ? recorder->position() : 0, last_call = first_call;

  explicit Selection(std::vector<Subscript> subscripts) : subscripts(std::move(subscripts)) {}

  /// Removes the calls from the recording. An assignment needs neither the elements nor their
  /// number, which may differ from step to step.
  void forget() const {
    if (recorder != nullptr && recorder == detail::context.recorder &&
        recorder->position() == last_call)
      recorder->forget(first_call);
  }
};

V::Part::Part(const V& x, std::vector<Subscript> subscripts, Where where) : of_(x), where_(where) {
  const auto selection = std::make_shared<Selection>(std::move(subscripts));
  static_cast<V&>(*this) =
      where.line() != 0 ? at(x, selection->subscripts, where) : at(x, selection->subscripts);
  if (selection->recorder != nullptr) selection->last_call = selection->recorder->position();
  selection_ = selection;
}
V::Part::~Part() = default;
V::Part::Part(const Part&) = default;
V::Part::Part(Part&&) noexcept = default;
V::Part& V::Part::operator=(const Part&) & = default;
V::Part& V::Part::operator=(Part&&) & noexcept = default;

bool V::Part::is_view() const { return value().shares_storage(of_.value()); }
void V::Part::put(const Operand& values) {
  const ErrorLine line(where_.line() != 0 ? where_ : values.where);
  if (!is_view()) {
    if (has_one_handle()) {
      static_cast<V&>(*this) = V();
      selection_->forget();
    }
    tapegrad::index_put_(of_, selection_->subscripts, values);
    return;
  }
  assign(*this, values);
}
void V::Part::operator=(const V& values) && { put(values); }
void V::Part::operator=(const Part& values) && { put(values); }
void V::Part::operator=(const Operand& values) && { put(values); }
void V::Property::operator=(const V& x) && {
  // A captured step records writes; it could not repeat a change of handles.
  const bool is_captured = StepObserver::current() != nullptr && defined() && x.defined();
  if (!of_.defined() || is_captured)
    static_cast<V&&>(*this) = Operand(x);
  else if (kind_ == Kind::kGradient)
    of_.set_grad(x);
  else
    of_.set_data(x);
}

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
std::vector<V> VariableOps::hsplit(const Sections& sections, Where where) const {
  return tapegrad::hsplit(self(), sections, where);
}
std::vector<V> VariableOps::vsplit(const Sections& sections, Where where) const {
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
V VariableOps::new_zeros(const Shape& shape, std::optional<DType> dtype) const {
  return new_full(shape, 0, dtype);
}
V VariableOps::new_ones(const Shape& shape, std::optional<DType> dtype) const {
  return new_full(shape, 1, dtype);
}
V VariableOps::new_full(const Shape& shape, Number value, std::optional<DType> dtype) const {
  return full(shape, value, {.dtype = dtype.value_or(self().dtype()), .device = self().device()});
}
int64_t VariableOps::nelement() const { return self().numel(); }
V VariableOps::new_tensor(const NestedValues& values) const {
  return tensor(values, {.dtype = self().dtype(), .device = self().device()});
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
  return {*this, subscripts};
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
std::vector<V> VariableOps::split(const Sections& sections, int dim, Where where) const {
  return tapegrad::split(self(), sections, dim, where);
}
std::vector<V> VariableOps::chunk(int64_t chunks, int dim, Where where) const {
  return tapegrad::chunk(self(), chunks, dim, where);
}
std::vector<V> VariableOps::tensor_split(const Sections& sections, int dim, Where where) const {
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
V VariableOps::index_select(int dim, const std::vector<int64_t>& index, Where where) const {
  return index_select(dim, tensor(index, {.device = self().device()}), where);
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
V::Part V::operator[](detail::VariableHere i) const { return {*this, {i.x}, i.where}; }
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
V VariableOps::scatter_reduce(int dim, const V& index, const V& source,
                              ScatterReduceOptions options, Where where) const {
  return tapegrad::scatter_reduce(self(), dim, index, source, options, where);
}

}  // namespace tapegrad
