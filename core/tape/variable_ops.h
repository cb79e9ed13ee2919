// The ops that are members of Variable: x.sum(1) is sum(x, 1).
//
// Every op that PyTorch has as a method of Tensor is a member here, with PyTorch's parameters in
// PyTorch's order. The headers of ops/ describe the functions of the same names; options that a
// member leaves out belong to the function. Members never change the variable unless their name
// ends with `_`. The most used ones may overwrite an rvalue, as in conv(x).relu() (ops/unary.h).
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/base/tensor.h"
#include "core/tape/further_ops.h"
#include "core/tape/sections.h"

namespace tapegrad {

class Variable;
class NestedValues;  // ops/create.h
class Subscript;     // ops/subscript.h
struct Slice;
struct NewAxis;
struct ValuesIndices;  // ops/extremes.h
struct Unique;         // ops/sort.h
struct SortOptions;
struct ScatterReduceOptions;  // ops/scatter.h
struct ClampOptions;          // ops/unary.h
struct RoundOptions;
struct TopkOptions;   // ops/sort.h
struct AlphaOptions;  // ops/binary.h
struct DivOptions;
struct SoftmaxOptions;  // ops/softmax.h
struct FlattenOptions;  // ops/view.h
namespace linalg {
struct Slogdet;  // ops/linalg.h
}
namespace torch {
struct TensorOptions;  // ops/create.h
}
namespace detail {
/// {} or std::nullopt in place of a bound: x.clamp({}, 0.5).
struct NoBound {
  NoBound() = default;
  NoBound(std::nullopt_t) {}
};
}  // namespace detail

/// Base of Variable.
class VariableOps : public FurtherOps {
 public:
  // Running sums and sorting.
  Variable cumsum(int dim, Where where = Where::current()) const;
  Variable cumprod(int dim, Where where = Where::current()) const;
  Variable logcumsumexp(int dim, Where where = Where::current()) const;
  ValuesIndices cummax(int dim, Where where = Where::current()) const;
  ValuesIndices cummin(int dim, Where where = Where::current()) const;
  Variable diff(int64_t n = 1, int dim = -1, Where where = Where::current()) const;
  ValuesIndices sort(int dim = -1, bool descending = false, Where where = Where::current()) const;
  ValuesIndices sort(SortOptions options, Where where = Where::current()) const;
  ValuesIndices sort(int dim, SortOptions options, Where where = Where::current()) const;
  Variable argsort(int dim = -1, bool descending = false, Where where = Where::current()) const;
  Variable argsort(SortOptions options, Where where = Where::current()) const;
  Variable msort(Where where = Where::current()) const;
  ValuesIndices topk(int64_t k, int dim = -1, bool largest = true,
                     Where where = Where::current()) const;
  ValuesIndices topk(int64_t k, int dim, bool largest, bool sorted,
                     Where where = Where::current()) const;
  ValuesIndices topk(int64_t k, TopkOptions options, Where where = Where::current()) const;
  ValuesIndices mode(int dim = -1, bool keepdim = false, Where where = Where::current()) const;
  Unique unique_consecutive(Where where = Where::current()) const;
  Unique unique(Where where = Where::current()) const;
  Unique unique(int dim, Where where = Where::current()) const;

  // Shapes. x.view(2, 3) is x.view({2, 3}).
  Variable reshape(const Shape& shape, Where where = Where::current()) const;
  Variable view(const Shape& shape, Where where = Where::current()) const;
  Variable reshape_as(const Variable& other, Where where = Where::current()) const;
  Variable view_as(const Variable& other, Where where = Where::current()) const;
  Variable expand_as(const Variable& other, Where where = Where::current()) const;
  Variable flatten(int start_dim = 0, int end_dim = -1, Where where = Where::current()) const;
  Variable flatten(FlattenOptions options, Where where = Where::current()) const;
  Variable ravel(Where where = Where::current()) const;
  Variable unflatten(int dim, const Shape& sizes, Where where = Where::current()) const;
  Variable squeeze(Where where = Where::current()) const;
  Variable squeeze(int dim, Where where = Where::current()) const;
  Variable unsqueeze(int dim, Where where = Where::current()) const;
  Variable transpose(int dim0, int dim1, Where where = Where::current()) const;
  Variable swapaxes(int dim0, int dim1, Where where = Where::current()) const;
  Variable swapdims(int dim0, int dim1, Where where = Where::current()) const;
  Variable t(Where where = Where::current()) const;
  Variable permute(const Dims& dims, Where where = Where::current()) const;
  Variable movedim(const Dims& source, const Dims& destination,
                   Where where = Where::current()) const;
  Variable moveaxis(const Dims& source, const Dims& destination,
                    Where where = Where::current()) const;
  Variable expand(const Shape& shape, Where where = Where::current()) const;
  Variable broadcast_to(const Shape& shape, Where where = Where::current()) const;
  Variable repeat(const Dims& times, Where where = Where::current()) const;
  Variable tile(const Dims& times, Where where = Where::current()) const;
  Variable repeat_interleave(int64_t times, Where where = Where::current()) const;
  Variable repeat_interleave(int64_t times, int dim, Where where = Where::current()) const;
  Variable repeat_interleave(const Variable& times, int dim, Where where = Where::current()) const;
  Variable repeat_interleave(const Variable& times, Where where = Where::current()) const;
  Variable select(int dim, int64_t index, Where where = Where::current()) const;
  Variable slice(int dim, int64_t start = 0, int64_t end = INT64_MAX, int64_t step = 1,
                 Where where = Where::current()) const;
  Variable narrow(int dim, int64_t start, int64_t length, Where where = Where::current()) const;
  std::vector<Variable> split(const Sections& sections, int dim = 0,
                              Where where = Where::current()) const;
  std::vector<Variable> chunk(int64_t chunks, int dim = 0, Where where = Where::current()) const;
  /// Returns the parts as an array, for `auto [q, k, v] = x.chunk<3>(-1);`. Throws ShapeError if
  /// there are fewer parts.
  template <size_t n>
  std::array<Variable, n> chunk(int dim = 0, Where where = Where::current()) const;
  template <size_t n>
  std::array<Variable, n> unbind(int dim = 0, Where where = Where::current()) const;
  /// Returns the parts as an array, for `auto [mean, log_std] = x.split<2>(64, -1);`.
  template <size_t n>
  std::array<Variable, n> split(int64_t size, int dim = 0, Where where = Where::current()) const;
  std::vector<Variable> tensor_split(const Sections& sections, int dim = 0,
                                     Where where = Where::current()) const;
  std::vector<Variable> hsplit(const Sections& sections, Where where = Where::current()) const;
  std::vector<Variable> vsplit(const Sections& sections, Where where = Where::current()) const;
  std::vector<Variable> unbind(int dim = 0, Where where = Where::current()) const;
  /// Returns windows of `size` elements, every `step` along dim, as a new last dimension; a view.
  /// The function unfold() is the one for images.
  Variable unfold(int dim, int64_t size, int64_t step, Where where = Where::current()) const;
  Variable flip(const Dims& dims, Where where = Where::current()) const;
  Variable fliplr(Where where = Where::current()) const;
  Variable flipud(Where where = Where::current()) const;
  Variable roll(const Dims& shifts, const Dims& dims = {}, Where where = Where::current()) const;
  Variable rot90(int64_t k = 1, Where where = Where::current()) const;
  Variable rot90(int64_t k, const Dims& dims, Where where = Where::current()) const;
  Variable diag(int64_t diagonal = 0, Where where = Where::current()) const;
  Variable diagonal(int64_t offset = 0, int dim1 = 0, int dim2 = 1,
                    Where where = Where::current()) const;
  Variable diag_embed(int64_t offset = 0, int dim1 = -2, int dim2 = -1,
                      Where where = Where::current()) const;
  Variable tril(int64_t diagonal = 0, Where where = Where::current()) const;
  Variable triu(int64_t diagonal = 0, Where where = Where::current()) const;
  Variable mT(Where where = Where::current()) const;
  Variable renorm(double p, int dim, double maxnorm, Where where = Where::current()) const;
  Variable contiguous(Where where = Where::current()) const;
  Variable clone(Where where = Where::current()) const;

  // Indexing: x.index({0, Slice{1}, ellipsis}) is at(x, {...}).
  Variable index(const std::vector<Subscript>& subscripts, Where where = Where::current()) const;
  Variable index_put(const std::vector<Subscript>& subscripts, const Operand& values,
                     bool accumulate = false) const;
  Variable gather(int dim, const Variable& index, Where where = Where::current()) const;
  Variable index_select(int dim, const Variable& index, Where where = Where::current()) const;
  Variable index_select(int dim, const std::vector<int64_t>& index,
                        Where where = Where::current()) const;
  Variable take(const Variable& index, Where where = Where::current()) const;
  Variable take_along_dim(const Variable& index, int dim, Where where = Where::current()) const;
  Variable index_add(int dim, const Variable& index, const Variable& source, double alpha = 1.0,
                     Where where = Where::current()) const;
  Variable index_copy(int dim, const Variable& index, const Variable& source,
                      Where where = Where::current()) const;
  Variable index_fill(int dim, const Variable& index, Number value,
                      Where where = Where::current()) const;
  Variable scatter(int dim, const Variable& index, const Variable& source,
                   Where where = Where::current()) const;
  Variable scatter(int dim, const Variable& index, Number value,
                   Where where = Where::current()) const;
  Variable scatter(int dim, const Variable& index, const Variable& source, std::string_view reduce,
                   Where where = Where::current()) const;
  Variable scatter_add(int dim, const Variable& index, const Variable& source,
                       Where where = Where::current()) const;
  Variable scatter_reduce(int dim, const Variable& index, const Variable& source,
                          std::string_view reduce, bool include_self = true,
                          Where where = Where::current()) const;
  Variable scatter_reduce(int dim, const Variable& index, const Variable& source,
                          std::string_view reduce, IncludeSelfOption option,
                          Where where = Where::current()) const;
  Variable scatter_reduce(int dim, const Variable& index, const Variable& source,
                          ScatterReduceOptions options, Where where = Where::current()) const;
  Variable select_scatter(const Variable& source, int dim, int64_t index,
                          Where where = Where::current()) const;
  Variable slice_scatter(const Variable& source, int dim, int64_t start, int64_t end,
                         int64_t step = 1, Where where = Where::current()) const;
  Variable diagonal_scatter(const Variable& source, int64_t offset = 0, int dim1 = 0, int dim2 = 1,
                            Where where = Where::current()) const;
  Variable masked_fill(const Variable& mask, const Operand& value) const;
  Variable masked_select(const Variable& mask, Where where = Where::current()) const;
  Variable masked_scatter(const Variable& mask, const Variable& source,
                          Where where = Where::current()) const;
  Variable where(const Variable& condition, const Operand& other) const;
  Variable nonzero(Where where = Where::current()) const;
  Variable argwhere(Where where = Where::current()) const;

  // Elementwise, of one operand.
  Variable abs(Where where = Where::current()) const&;
  Variable abs(Where where = Where::current()) &&;
  Variable absolute(Where where = Where::current()) const;
  Variable neg(Where where = Where::current()) const&;
  Variable neg(Where where = Where::current()) &&;
  Variable negative(Where where = Where::current()) const;
  Variable sign(Where where = Where::current()) const;
  Variable sgn(Where where = Where::current()) const;
  Variable signbit(Where where = Where::current()) const;
  Variable square(Where where = Where::current()) const&;
  Variable square(Where where = Where::current()) &&;
  Variable sqrt(Where where = Where::current()) const&;
  Variable sqrt(Where where = Where::current()) &&;
  Variable rsqrt(Where where = Where::current()) const;
  Variable reciprocal(Where where = Where::current()) const;
  Variable exp(Where where = Where::current()) const&;
  Variable exp(Where where = Where::current()) &&;
  Variable exp2(Where where = Where::current()) const;
  Variable expm1(Where where = Where::current()) const;
  Variable log(Where where = Where::current()) const&;
  Variable log(Where where = Where::current()) &&;
  Variable log2(Where where = Where::current()) const;
  Variable log10(Where where = Where::current()) const;
  Variable log1p(Where where = Where::current()) const;
  Variable sin(Where where = Where::current()) const;
  Variable cos(Where where = Where::current()) const;
  Variable tan(Where where = Where::current()) const;
  Variable asin(Where where = Where::current()) const;
  Variable acos(Where where = Where::current()) const;
  Variable atan(Where where = Where::current()) const;
  Variable arcsin(Where where = Where::current()) const;
  Variable arccos(Where where = Where::current()) const;
  Variable arctan(Where where = Where::current()) const;
  Variable sinh(Where where = Where::current()) const;
  Variable cosh(Where where = Where::current()) const;
  Variable tanh(Where where = Where::current()) const&;
  Variable tanh(Where where = Where::current()) &&;
  Variable asinh(Where where = Where::current()) const;
  Variable acosh(Where where = Where::current()) const;
  Variable atanh(Where where = Where::current()) const;
  Variable sinc(Where where = Where::current()) const;
  Variable erf(Where where = Where::current()) const;
  Variable erfc(Where where = Where::current()) const;
  Variable erfinv(Where where = Where::current()) const;
  Variable lgamma(Where where = Where::current()) const;
  Variable digamma(Where where = Where::current()) const;
  Variable sigmoid(Where where = Where::current()) const&;
  Variable sigmoid(Where where = Where::current()) &&;
  Variable relu(Where where = Where::current()) const&;
  Variable relu(Where where = Where::current()) &&;
  Variable floor(Where where = Where::current()) const;
  Variable ceil(Where where = Where::current()) const;
  Variable round(Where where = Where::current()) const;
  Variable round(int decimals, Where where = Where::current()) const;
  Variable round(RoundOptions options, Where where = Where::current()) const;
  Variable trunc(Where where = Where::current()) const;
  Variable fix(Where where = Where::current()) const;
  Variable frac(Where where = Where::current()) const;
  Variable deg2rad(Where where = Where::current()) const;
  Variable rad2deg(Where where = Where::current()) const;
  Variable logical_not(Where where = Where::current()) const;
  Variable bitwise_not(Where where = Where::current()) const;
  Variable isnan(Where where = Where::current()) const;
  Variable isinf(Where where = Where::current()) const;
  Variable isposinf(Where where = Where::current()) const;
  Variable isneginf(Where where = Where::current()) const;
  Variable isfinite(Where where = Where::current()) const;
  Variable logit(Where where = Where::current()) const;
  Variable logit(double eps, Where where = Where::current()) const;
  Variable nan_to_num(double nan = 0.0, Where where = Where::current()) const;
  Variable nan_to_num(double nan, double posinf, double neginf,
                      Where where = Where::current()) const;
  Variable clamp(const Operand& min, const Operand& max) const;
  Variable clamp(const Operand& min) const;
  Variable clamp(detail::NoBound, const Operand& max) const;
  Variable clamp(ClampOptions options, Where where = Where::current()) const;
  Variable clip(const Operand& min, const Operand& max) const;
  Variable clip(const Operand& min) const;
  Variable clip(detail::NoBound, const Operand& max) const;
  Variable clamp_min(const Operand& min) const;
  Variable clamp_max(const Operand& max) const;
  Variable softmax(int dim, Where where = Where::current()) const;
  Variable softmax(SoftmaxOptions options, Where where = Where::current()) const;
  template <std::same_as<DType> D>
  Variable softmax(int dim, D dtype, Where where = Where::current()) const;
  Variable log_softmax(int dim, Where where = Where::current()) const;
  Variable log_softmax(SoftmaxOptions options, Where where = Where::current()) const;
  template <std::same_as<DType> D>
  Variable log_softmax(int dim, D dtype, Where where = Where::current()) const;

  // Elementwise, of two operands: variables or numbers.
  Variable add(Operand other) const&;
  Variable add(Operand other) &&;
  Variable add(const Operand& other, Number alpha) const;
  Variable sub(const Operand& other, Number alpha) const;
  Variable add(const Operand& other, AlphaOptions options) const;
  Variable sub(const Operand& other, AlphaOptions options) const;
  Variable sub(Operand other) const&;
  Variable sub(Operand other) &&;
  Variable mul(Operand other) const&;
  Variable mul(Operand other) &&;
  Variable div(Operand other) const&;
  Variable div(Operand other) &&;
  Variable div(const Operand& other, std::string_view rounding_mode) const;
  Variable div(const Operand& other, DivOptions options) const;
  Variable subtract(const Operand& other) const;
  Variable multiply(const Operand& other) const;
  Variable divide(const Operand& other) const;
  Variable true_divide(const Operand& other) const;
  Variable floor_divide(const Operand& other) const;
  Variable remainder(const Operand& other) const;
  Variable fmod(const Operand& other) const;
  Variable pow(Operand exponent) const&;
  Variable pow(Operand exponent) &&;
  Variable float_power(const Operand& exponent) const;
  Variable maximum(const Operand& other) const;
  Variable minimum(const Operand& other) const;
  Variable fmax(const Operand& other) const;
  Variable fmin(const Operand& other) const;
  Variable atan2(const Operand& other) const;
  Variable arctan2(const Operand& other) const;
  Variable hypot(const Operand& other) const;
  Variable copysign(const Operand& other) const;
  Variable ldexp(const Operand& other) const;
  Variable xlogy(const Operand& other) const;
  Variable logaddexp(const Operand& other) const;
  Variable gcd(const Operand& other) const;
  Variable lcm(const Operand& other) const;
  Variable eq(const Operand& other) const;
  Variable ne(const Operand& other) const;
  Variable lt(const Operand& other) const;
  Variable le(const Operand& other) const;
  Variable gt(const Operand& other) const;
  Variable ge(const Operand& other) const;
  Variable less(const Operand& other) const;
  Variable less_equal(const Operand& other) const;
  Variable greater(const Operand& other) const;
  Variable greater_equal(const Operand& other) const;
  Variable not_equal(const Operand& other) const;
  Variable logical_and(const Operand& other) const;
  Variable logical_or(const Operand& other) const;
  Variable logical_xor(const Operand& other) const;
  Variable bitwise_and(const Operand& other) const;
  Variable bitwise_or(const Operand& other) const;
  Variable bitwise_xor(const Operand& other) const;
  Variable lerp(const Variable& end, const Operand& weight) const;
  Variable isclose(const Variable& other, double rtol = 1e-5, double atol = 1e-8,
                   bool equal_nan = false, Where where = Where::current()) const;
  bool allclose(const Variable& other, double rtol = 1e-5, double atol = 1e-8,
                bool equal_nan = false, Where where = Where::current()) const;
  bool equal(const Variable& other, Where where = Where::current()) const;

  // Products and matrices.
  Variable matmul(const Variable& other, Where where = Where::current()) const;
  Variable mm(const Variable& other, Where where = Where::current()) const;
  Variable bmm(const Variable& other, Where where = Where::current()) const;
  Variable mv(const Variable& other, Where where = Where::current()) const;
  Variable dot(const Variable& other, Where where = Where::current()) const;
  Variable vdot(const Variable& other, Where where = Where::current()) const;
  Variable inner(const Variable& other, Where where = Where::current()) const;
  Variable outer(const Variable& other, Where where = Where::current()) const;
  Variable kron(const Variable& other, Where where = Where::current()) const;
  Variable cross(const Variable& other, Where where = Where::current()) const;
  Variable cross(const Variable& other, int dim, Where where = Where::current()) const;
  Variable addmm(const Variable& a, const Variable& b, Number beta = 1, Number alpha = 1,
                 Where where = Where::current()) const;
  Variable addmv(const Variable& a, const Variable& b, Number beta = 1, Number alpha = 1,
                 Where where = Where::current()) const;
  Variable addr(const Variable& a, const Variable& b, Number beta = 1, Number alpha = 1,
                Where where = Where::current()) const;
  Variable baddbmm(const Variable& a, const Variable& b, Number beta = 1, Number alpha = 1,
                   Where where = Where::current()) const;
  Variable addbmm(const Variable& a, const Variable& b, Number beta = 1, Number alpha = 1,
                  Where where = Where::current()) const;
  Variable det(Where where = Where::current()) const;
  Variable logdet(Where where = Where::current()) const;
  Variable inverse(Where where = Where::current()) const;
  Variable pinverse(Where where = Where::current()) const;
  Variable matrix_exp(Where where = Where::current()) const;
  linalg::Slogdet slogdet(Where where = Where::current()) const;
  Variable cholesky(bool upper = false, Where where = Where::current()) const;
  Variable matrix_power(int64_t n, Where where = Where::current()) const;

  // In place. The result must have shape and dtype of this variable.
  Variable& add_(const Operand& other);
  Variable& sub_(const Operand& other);
  Variable& add_(const Operand& other, Number alpha);
  Variable& sub_(const Operand& other, Number alpha);
  Variable& add_(const Operand& other, AlphaOptions options);
  Variable& sub_(const Operand& other, AlphaOptions options);
  Variable& mul_(const Operand& other);
  Variable& div_(const Operand& other);
  Variable& div_(const Operand& other, std::string_view rounding_mode);
  Variable& copy_(const Variable& values, Where where = Where::current());
  Variable& copy_(const Tensor& values, Where where = Where::current());
  Variable& fill_(Number value, Where where = Where::current());
  /// Fills the variable with the value of a variable of rank 0.
  Variable& fill_(const Variable& value, Where where = Where::current());
  Variable& zero_(Where where = Where::current());
  Variable& neg_(Where where = Where::current());
  Variable& exp_(Where where = Where::current());
  Variable& sqrt_(Where where = Where::current());
  Variable& tanh_(Where where = Where::current());
  Variable& relu_(Where where = Where::current());
  Variable& sigmoid_(Where where = Where::current());
  Variable& abs_(Where where = Where::current());
  Variable& sign_(Where where = Where::current());
  Variable& square_(Where where = Where::current());
  Variable& rsqrt_(Where where = Where::current());
  Variable& reciprocal_(Where where = Where::current());
  Variable& log_(Where where = Where::current());
  Variable& log2_(Where where = Where::current());
  Variable& log10_(Where where = Where::current());
  Variable& log1p_(Where where = Where::current());
  Variable& expm1_(Where where = Where::current());
  Variable& sin_(Where where = Where::current());
  Variable& cos_(Where where = Where::current());
  Variable& erf_(Where where = Where::current());
  Variable& floor_(Where where = Where::current());
  Variable& ceil_(Where where = Where::current());
  Variable& round_(Where where = Where::current());
  Variable& trunc_(Where where = Where::current());
  Variable& frac_(Where where = Where::current());
  Variable& clamp_(const Operand& min, const Operand& max);
  Variable& clip_(const Operand& min, const Operand& max);
  Variable& clamp_(detail::NoBound, const Operand& max);
  Variable& clip_(detail::NoBound, const Operand& max);
  Variable& clamp_min_(const Operand& min);
  Variable& clamp_max_(const Operand& max);
  Variable& pow_(const Operand& other);
  Variable& remainder_(const Operand& other);
  Variable& fmod_(const Operand& other);
  Variable& floor_divide_(const Operand& other);
  Variable& lerp_(const Variable& end, const Operand& weight);
  Variable& addmm_(const Variable& a, const Variable& b, Number beta = 1, Number alpha = 1,
                   Where where = Where::current());
  Variable& masked_fill_(const Variable& mask, Number value, Where where = Where::current());
  Variable& masked_fill_(const Variable& mask, const Variable& value,
                         Where where = Where::current());
  Variable& masked_scatter_(const Variable& mask, const Variable& source,
                            Where where = Where::current());
  Variable& index_put_(const std::vector<Subscript>& subscripts, const Operand& values,
                       bool accumulate = false);
  Variable& index_add_(int dim, const Variable& index, const Variable& source, double alpha = 1.0,
                       Where where = Where::current());
  Variable& index_copy_(int dim, const Variable& index, const Variable& source,
                        Where where = Where::current());
  Variable& index_fill_(int dim, const Variable& index, Number value,
                        Where where = Where::current());
  Variable& scatter_(int dim, const Variable& index, const Variable& source,
                     Where where = Where::current());
  Variable& scatter_(int dim, const Variable& index, Number value, Where where = Where::current());
  Variable& scatter_(int dim, const Variable& index, const Variable& source,
                     std::string_view reduce, Where where = Where::current());
  Variable& scatter_reduce_(int dim, const Variable& index, const Variable& source,
                            std::string_view reduce, bool include_self = true,
                            Where where = Where::current());
  Variable& scatter_add_(int dim, const Variable& index, const Variable& source,
                         Where where = Where::current());
  Variable& put_(const Variable& index, const Variable& source, bool accumulate = false);
  Variable& fill_diagonal_(Number value, Where where = Where::current());
  Variable& tril_(int64_t diagonal = 0, Where where = Where::current());
  Variable& triu_(int64_t diagonal = 0, Where where = Where::current());
  Variable& nan_to_num_(double nan = 0.0, Where where = Where::current());
  Variable& normal_(double mean = 0.0, double std = 1.0, Where where = Where::current());
  Variable& uniform_(double low = 0.0, double high = 1.0, Where where = Where::current());
  Variable& exponential_(double lambd = 1.0, Where where = Where::current());
  Variable& bernoulli_(double p = 0.5);
  /// Fills the variable with random whole numbers in [from, to), or in [0, to).
  Variable& random_(int64_t from, int64_t to);
  Variable& random_(int64_t to) { return random_(0, to); }

  // Random numbers.
  Variable bernoulli(Where where = Where::current()) const;
  Variable multinomial(int64_t num_samples, bool replacement = false,
                       Where where = Where::current()) const;

  // Casts, as x.to(f16).
  Variable half(Where where = Where::current()) const;
  Variable bfloat16(Where where = Where::current()) const;
  Variable type(DType dtype, Where where = Where::current()) const;

  // Tensors of this dtype, on this device.
  Variable new_zeros(const Shape& shape, std::optional<DType> dtype = {}) const;
  Variable new_ones(const Shape& shape, std::optional<DType> dtype = {}) const;
  Variable new_full(const Shape& shape, Number value, std::optional<DType> dtype = {}) const;
  Variable new_tensor(const NestedValues& values) const;
  int64_t nelement() const;
  Variable new_empty(const Shape& shape) const;
  /// Returns dtype and device: zeros({2}, x.options()).
  torch::TensorOptions options() const;

  // Sizes and dimensions without braces.
  template <std::integral... N>
  requires(sizeof...(N) > 1) auto reshape(N... sizes) const { return reshape(Dims::of(sizes...)); }
  template <std::integral... N>
  requires(sizeof...(N) > 1) auto view(N... sizes) const { return view(Dims::of(sizes...)); }
  template <std::integral... N>
  requires(sizeof...(N) > 1) auto permute(N... dims) const { return permute(Dims::of(dims...)); }
  template <std::integral... N>
  requires(sizeof...(N) > 1) auto expand(N... sizes) const { return expand(Dims::of(sizes...)); }
  template <std::integral... N>
  requires(sizeof...(N) > 1) auto flip(N... dims) const { return flip(Dims::of(dims...)); }
  template <std::integral... N>
  requires(sizeof...(N) > 1) auto repeat(N... times) const { return repeat(Dims::of(times...)); }

  // Names of members in other libraries. The compiler's error gives the name to use instead.
  template <typename V = void>
  auto numpy() const {
    static_assert(detail::kNever<V>, "type x.to_vector<float>() instead of x.numpy()");
  }
  template <typename T>
  requires(!std::same_as<T, void>) std::vector<T> tolist(Where where = Where::current())
  const;
  template <std::same_as<void> V = void>
  auto tolist() const {
    static_assert(detail::kNever<V>, "type x.to_vector<float>() instead of x.tolist()");
  }
  template <typename V = void>
  auto real() const {
    static_assert(detail::kNever<V>,
                  "x.real(): complex numbers are pairs in a last dimension; type real(z)");
  }
  template <typename V = void>
  auto imag() const {
    static_assert(detail::kNever<V>,
                  "x.imag(): complex numbers are pairs in a last dimension; type imag(z)");
  }
  template <typename V = void>
  auto type() const {
    static_assert(detail::kNever<V>, "type x.dtype(), or x.to(f32) to cast, instead of x.type()");
  }
  template <typename V = void>
  auto length() const {
    static_assert(detail::kNever<V>, "type x.size(0) or x.numel() instead of x.length()");
  }
  template <typename V = void>
  auto print() const {
    static_assert(detail::kNever<V>, "type print(x) or std::cout << x instead of x.print()");
  }
  template <typename V = void>
  auto as_strided(const Shape&, const Strides&, int64_t = 0) const {
    static_assert(detail::kNever<V>,
                  "type x.unfold(dim, size, step), or slices, instead of "
                  "x.as_strided(): strides are not chosen by hand");
  }
  template <typename V = void>
  auto to_sparse() const {
    static_assert(
        detail::kNever<V>,
        "x.to_sparse(): tensors are dense; multiply rows with index_select and index_add, "
        "and take nn::Embedding({.sparse = true}) for sparse gradients");
  }
  template <std::integral... I>
  requires(sizeof...(I) > 0) auto operator()(I...) const {
    static_assert(sizeof...(I) == 0, "type x[0][1] or at(x, {0, 1}) instead of x(0, 1)");
  }
  template <typename... I>
  requires(!(std::integral<I> && ...) &&
           ((std::integral<I> || std::same_as<I, Slice> || std::same_as<I, NewAxis>)&&...)) auto
  operator()(const I&...) const {
    static_assert(sizeof...(I) == 0, "type x.index({1, Slice()}) instead of x(1, Slice())");
  }
  template <typename V = void>
  auto t_() const {
    static_assert(detail::kNever<V>, "type x = x.t() instead of x.t_()");
  }
  template <typename V = void>
  auto squeeze_(int = 0) const {
    static_assert(detail::kNever<V>, "type x = x.squeeze(dim) instead of x.squeeze_(dim)");
  }
  template <typename V = void>
  auto unsqueeze_(int) const {
    static_assert(detail::kNever<V>, "type x = x.unsqueeze(dim) instead of x.unsqueeze_(dim)");
  }
  template <typename V = void>
  auto transpose_(int, int) const {
    static_assert(detail::kNever<V>, "type x = x.transpose(0, 1) instead of x.transpose_(0, 1)");
  }
  template <typename V = void>
  auto resize_(const Shape&) const {
    static_assert(detail::kNever<V>, "type x = x.reshape(shape) instead of x.resize_(shape)");
  }

 protected:
  VariableOps() = default;

 private:
  const Variable& self() const;
  Variable& self();
};

}  // namespace tapegrad
