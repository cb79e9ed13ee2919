// Alternative names of ops: PyTorch's aliases, and names of NumPy, Keras, TensorFlow and Flux. The
// headers of the ops describe the functions.
#pragma once

#include "core/autograd/derivatives.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/arrange.h"
#include "ops/arrange_composed.h"
#include "ops/attention.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/distance.h"
#include "ops/elementwise.h"
#include "ops/index.h"
#include "ops/linalg.h"
#include "ops/linalg_composed.h"
#include "ops/margin_loss.h"
#include "ops/matmul.h"
#include "ops/named_options.h"
#include "ops/noise.h"
#include "ops/products.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/scan.h"
#include "ops/scatter.h"
#include "ops/softmax.h"
#include "ops/sort.h"
#include "ops/special.h"
#include "ops/special_composed.h"
#include "ops/statistics.h"
#include "ops/statistics_composed.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "ops/windows.h"

namespace tapegrad {

/// std() under a name that `using namespace tapegrad` does not make ambiguous with the namespace
/// std.
inline Variable stddev(const Variable& x, VarOptions options = {}, Where where = Where::current()) {
  return std(x, options, where);
}
template <std::convertible_to<const Variable&> V>
Variable stddev(const V& x, const Dims& dims, VarOptions options = {},
                Where where = Where::current()) {
  return std(x, dims, options, where);
}
template <std::same_as<bool> B>
Variable stddev(const Variable& x, B unbiased, Where where = Where::current()) {
  return std(x, VarOptions{.correction = unbiased}, where);
}
template <std::same_as<bool> B>
Variable stddev(const Variable& x, const Dims& dims, B unbiased, bool keepdim = false,
                Where where = Where::current()) {
  return std(x, dims, VarOptions{.correction = unbiased, .keepdim = keepdim}, where);
}

namespace detail {
void print_line(const std::string& text);
}  // namespace detail
/// Prints the parts with spaces in between and an end of line, as Python's print("loss", loss,
/// epoch).
template <typename... Parts>
requires(sizeof...(Parts) > 1 &&
         !(std::same_as<Parts, std::ostream> || ...)) void print(const Parts&... parts) {
  detail::ErrorText line;
  ((line.text().empty() ? void() : line.add(' '), line.add(parts)), ...);
  detail::print_line(line.text());
}

inline bool is_floating_point(const Variable& x) { return x.is_floating_point(); }
/// Returns x without history. Equivalent to x.detach(); Keras calls it stop_gradient.
inline Variable detach(const Variable& x) { return x.detach(); }
inline Variable stop_gradient(const Variable& x) { return x.detach(); }

// Ops of one operand:
inline Variable absolute(Variable x, Where where = Where::current()) {
  return abs(std::move(x), where);
}
inline Variable negative(Variable x, Where where = Where::current()) {
  return neg(std::move(x), where);
}
inline Variable log_sigmoid(Variable x, Where where = Where::current()) {
  return logsigmoid(std::move(x), where);
}
inline Variable fix(Variable x, Where where = Where::current()) {
  return trunc(std::move(x), where);
}
inline Variable sgn(Variable x, Where where = Where::current()) {
  return sign(std::move(x), where);
}
inline Variable arcsin(Variable x, Where where = Where::current()) {
  return asin(std::move(x), where);
}
inline Variable arccos(Variable x, Where where = Where::current()) {
  return acos(std::move(x), where);
}
inline Variable arctan(Variable x, Where where = Where::current()) {
  return atan(std::move(x), where);
}
inline Variable arcsinh(Variable x, Where where = Where::current()) {
  return asinh(std::move(x), where);
}
inline Variable arccosh(Variable x, Where where = Where::current()) {
  return acosh(std::move(x), where);
}
inline Variable arctanh(Variable x, Where where = Where::current()) {
  return atanh(std::move(x), where);
}
inline Variable inverse(const Variable& x, Where where = Where::current()) {
  return linalg::inv(x, where);
}
inline Variable det(const Variable& x, Where where = Where::current()) {
  return linalg::det(x, where);
}
inline Variable matrix_exp(const Variable& x, Where where = Where::current()) {
  return linalg::matrix_exp(x, where);
}
inline Variable positive(const Variable& x) { return x; }
inline Variable ravel(const Variable& x, Where where = Where::current()) {
  return flatten(x, 0, -1, where);
}
inline Variable fliplr(const Variable& x, Where where = Where::current()) {
  return flip(x, 1, where);
}
inline Variable flipud(const Variable& x, Where where = Where::current()) {
  return flip(x, 0, where);
}

// Ops of two operands:
inline Variable subtract(Operand a, Operand b) { return sub(std::move(a), std::move(b)); }
inline Variable multiply(Operand a, Operand b) { return mul(std::move(a), std::move(b)); }
inline Variable divide(Operand a, Operand b) { return div(std::move(a), std::move(b)); }
inline Variable true_divide(Operand a, Operand b) { return div(std::move(a), std::move(b)); }
inline Variable power(Operand a, Operand b) { return pow(std::move(a), std::move(b)); }
inline Variable arctan2(Operand a, Operand b) { return atan2(std::move(a), std::move(b)); }
inline Variable mod(Operand a, Operand b) { return remainder(std::move(a), std::move(b)); }
inline Variable greater(const Operand& a, const Operand& b) { return gt(a, b); }
inline Variable greater_equal(const Operand& a, const Operand& b) { return ge(a, b); }
inline Variable less(const Operand& a, const Operand& b) { return lt(a, b); }
inline Variable less_equal(const Operand& a, const Operand& b) { return le(a, b); }
inline Variable not_equal(const Operand& a, const Operand& b) { return ne(a, b); }
inline Variable rsub(Operand a, Operand b) { return sub(std::move(b), std::move(a)); }
inline Variable vdot(const Variable& a, const Variable& b, Where where = Where::current()) {
  return dot(a, b, where);
}
inline Variable ger(const Variable& a, const Variable& b, Where where = Where::current()) {
  return outer(a, b, where);
}
inline Variable clip(Variable x, const Operand& min, const Operand& max) {
  return clamp(std::move(x), min, max);
}
inline Variable clip(Variable x, ClampOptions options, Where where = Where::current()) {
  return clamp(std::move(x), options, where);
}

// Ops on shapes:
inline Variable expand_dims(const Variable& x, int dim, Where where = Where::current()) {
  return unsqueeze(x, dim, where);
}
inline Variable broadcast_to(const Variable& x, const Shape& shape,
                             Where where = Where::current()) {
  return expand(x, shape, where);
}
inline Variable expand_as(const Variable& x, const Variable& other,
                          Where where = Where::current()) {
  return expand(x, other.shape(), where);
}
inline Variable view_as(const Variable& x, const Variable& other, Where where = Where::current()) {
  return view(x, other.shape(), where);
}
inline Variable reshape_as(const Variable& x, const Variable& other,
                           Where where = Where::current()) {
  return reshape(x, other.shape(), where);
}
inline Variable swapaxes(const Variable& x, int dim0, int dim1, Where where = Where::current()) {
  return transpose(x, dim0, dim1, where);
}
inline Variable swapdims(const Variable& x, int dim0, int dim1, Where where = Where::current()) {
  return transpose(x, dim0, dim1, where);
}
inline Variable moveaxis(const Variable& x, const Dims& source, const Dims& destination,
                         Where where = Where::current()) {
  return movedim(x, source, destination, where);
}
inline Variable concat(VariableList inputs, int dim = 0, Where where = Where::current()) {
  return cat(inputs, dim, where);
}
inline Variable concatenate(VariableList inputs, int dim = 0, Where where = Where::current()) {
  return cat(inputs, dim, where);
}
inline Variable row_stack(VariableList inputs, Where where = Where::current()) {
  return vstack(inputs, where);
}
inline std::vector<Variable> vsplit(const Variable& x, const Sections& sections,
                                    Where where = Where::current()) {
  return tensor_split(x, sections, 0, where);
}
inline std::vector<Variable> hsplit(const Variable& x, const Sections& sections,
                                    Where where = Where::current()) {
  return tensor_split(x, sections, x.rank() == 1 ? 0 : 1, where);
}
inline std::vector<Variable> dsplit(const Variable& x, const Sections& sections,
                                    Where where = Where::current()) {
  return tensor_split(x, sections, 2, where);
}
/// Transposes a matrix.
inline Variable transpose(const Variable& x, Where where = Where::current()) { return t(x, where); }
/// Returns the indices of nonzero elements, one row for each. Equivalent to nonzero().
inline Variable argwhere(const Variable& x, Where where = Where::current()) {
  return nonzero(x, where);
}
inline Variable diagflat(const Variable& x, int64_t offset = 0, Where where = Where::current()) {
  return diag(flatten(x, 0, -1, where), offset, where);
}
/// Returns the index of the interval between ascending boundaries for each element.
inline Variable bucketize(const Variable& x, const Variable& boundaries, bool right = false,
                          Where where = Where::current()) {
  return searchsorted(boundaries, x, right, where);
}
template <std::convertible_to<const Variable&> V>
Variable bucketize(const V& x, const Variable& boundaries, SearchSortedOptions options,
                   Where where = Where::current()) {
  return searchsorted(boundaries, x, options, where);
}
inline Variable trapz(const Variable& y, double dx = 1.0, int dim = -1,
                      Where where = Where::current()) {
  return trapezoid(y, dx, dim, where);
}
inline Variable trapz(const Variable& y, const Variable& x, int dim = -1,
                      Where where = Where::current()) {
  return trapezoid(y, x, dim, where);
}
/// Sorts along dimension 0.
inline Variable msort(const Variable& x, Where where = Where::current()) {
  return sort(x, 0, false, where).values;
}

// Linear algebra:
inline Variable matrix_power(const Variable& x, int64_t n, Where where = Where::current()) {
  return linalg::matrix_power(x, n, where);
}
inline Variable pinverse(const Variable& x, Where where = Where::current()) {
  return linalg::pinv(x, {}, where);
}
inline Variable logdet(const Variable& x, Where where = Where::current()) {
  const linalg::Slogdet y = linalg::slogdet(x, where);
  return log(y.sign, where) + y.logabsdet;
}
inline Variable chain_matmul(VariableList factors, Where where = Where::current()) {
  return linalg::multi_dot(factors, where);
}
/// Overload for norm(x, "fro") and norm(x, "nuc").
template <std::convertible_to<std::string_view> Ord>
Variable norm(const Variable& x, const Ord& ord, Where where = Where::current()) {
  return std::string_view(ord) == "fro" ? norm(x, 2.0, where)
                                        : linalg::matrix_norm(x, ord, {-2, -1}, false, where);
}

// Random numbers:
inline void set_seed(uint64_t seed) { manual_seed(seed); }
inline void set_random_seed(uint64_t seed) { manual_seed(seed); }

// Devices:
inline constexpr Device kCPU = cpu, kCUDA = gpu;
namespace cuda {
inline bool is_available() { return tapegrad::is_available(gpu); }
}  // namespace cuda

// Gradients:
/// Returns the gradient of f at x, for a function with one output element; Flux's gradient(f, x).
template <std::invocable<const Variable&> F>
Variable gradient(F f, const Variable& x) {
  return vjp(f, x).product;
}
template <typename V = void>
class GradientTape {
  static_assert(
      detail::kNever<V>,
      "type loss.backward() or grad(loss, x): every op is recorded, without a tape object");
};

// nn::functional::relu is tapegrad::relu.
namespace nn::functional {
using namespace ::tapegrad;
}  // namespace nn::functional

template <typename T>
Variable as_tensor(const std::vector<T>& values, TensorOptions options = {}) {
  return tensor(values, options);
}
template <typename T>
Variable as_tensor(const std::vector<T>& values, DType dtype) {
  return tensor(values, {.dtype = dtype});
}
template <typename T>
Variable as_tensor(std::initializer_list<T> values, TensorOptions options = {}) {
  return tensor(std::vector<T>(values), options);
}
template <typename V = void>
auto from_numpy(const auto&...) {
  static_assert(detail::kNever<V>, "type from_blob(pointer, shape) or tensor(values, shape)");
}

/// libtorch's form with chained options: from_blob(data, {2, 3}, torch::dtype(torch::kInt)). Throws
/// DTypeError if the dtype is not that of the elements, and ArgumentError if the device is not the
/// CPU.
template <typename T, std::derived_from<TensorOptions> O>
Variable from_blob(T* data, const Shape& shape, const O& options) {
  const TensorOptions& of = options;
  if (of.device && *of.device != cpu)
    fail<ArgumentError>("from_blob: wraps memory of the CPU; write from_blob(data, shape).to(",
                        *of.device, ")");
  const DType dtype = of.dtype ? *of.dtype : DType(f32);
  Variable x = from_blob(data, shape, dtype);
  return of.requires_grad ? x.requires_grad_() : x;
}

/// Overload with PyTorch's options by position.
template <typename N>
requires std::is_arithmetic_v<N>
inline Variable triplet_margin_loss(const Variable& anchor, const Variable& positive,
                                    const Variable& negative, N margin, double p = 2.0,
                                    double eps = 1e-6, bool swap = false,
                                    Reduction reduction = Reduction::kMean,
                                    Where where = Where::current()) {
  return triplet_margin_loss(anchor, positive, negative,
                             TripletMarginOptions{double(margin), p, eps, swap, reduction}, where);
}
inline Variable scaled_dot_product_attention(const Variable& query, const Variable& key,
                                             const Variable& value, const Variable& attn_mask,
                                             double dropout_p, bool is_causal = false,
                                             std::optional<double> scale = {},
                                             bool enable_gqa = false,
                                             Where where = Where::current()) {
  return scaled_dot_product_attention(
      query, key, value, AttentionOptions{attn_mask, dropout_p, is_causal, scale, enable_gqa},
      default_generator(), where);
}
template <std::derived_from<Variable> V>
Variable scaled_dot_product_attention(const Variable& query, const Variable& key,
                                      const Variable& value, const V& attn_mask,
                                      Where where = Where::current()) {
  return scaled_dot_product_attention(query, key, value, attn_mask, 0.0, false, {}, false, where);
}

/// Options of normalize(x, {.dim = -1}).
struct NormalizeOptions {
  double p = 2.0;
  int dim = 1;
  double eps = 1e-12;
};
inline Variable normalize(const Variable& x, NormalizeOptions options,
                          Where where = Where::current()) {
  return normalize(x, options.p, options.dim, options.eps, where);
}
namespace linalg {
inline Variable norm(const Variable& x, Where where = Where::current()) {
  return tapegrad::norm(x, 2.0, where);
}
/// Returns the norm of matrices for two dimensions, and of vectors for one dimension.
inline Variable norm(const Variable& x, double ord, const Dims& dims, bool keepdim = false,
                     Where where = Where::current()) {
  return dims.size() == 2 ? matrix_norm(x, ord, dims, keepdim, where)
                          : vector_norm(x, ord, dims, keepdim, where);
}
template <typename Ord>
requires std::constructible_from<std::string_view, const Ord&> Variable
norm(const Variable& x, const Ord& ord, Where where = Where::current()) {
  return matrix_norm(x, ord, {-2, -1}, false, where);
}
inline Variable norm(const Variable& x, double ord, Where where = Where::current()) {
  return x.rank() == 2 ? matrix_norm(x, ord, {-2, -1}, false, where)
                       : vector_norm(x, ord, {}, false, where);
}
using tapegrad::cross, tapegrad::diagonal, tapegrad::matmul;
}  // namespace linalg

inline int64_t numel(const Variable& x) { return x.numel(); }
inline Variable operator+(const Variable& x) { return x; }
inline Variable scalar_tensor(Number value, TensorOptions options = {}) {
  options.dtype = options.dtype.value_or(default_dtype());
  return scalar(value, options);
}
template <typename V = void>
Variable sparse_coo_tensor(const Variable&, const Variable&, const Shape& = {}) {
  static_assert(detail::kNever<V>,
                "sparse_coo_tensor: tensors are dense; multiply rows with index_select and "
                "index_add, and take nn::Embedding({.sparse = true}) for sparse gradients");
  return {};
}

// Names of SciPy and torch.special:
inline Variable expit(const Variable& x, Where where = Where::current()) {
  return sigmoid(x, where);
}
inline Variable gammaln(const Variable& x, Where where = Where::current()) {
  return lgamma(x, where);
}
inline Variable psi(const Variable& x, Where where = Where::current()) { return digamma(x, where); }

namespace special {
using tapegrad::digamma, tapegrad::entr, tapegrad::erf, tapegrad::erfc, tapegrad::erfinv,
    tapegrad::exp2, tapegrad::expit, tapegrad::expm1, tapegrad::gammaln, tapegrad::log1p,
    tapegrad::log_softmax, tapegrad::logit, tapegrad::logsumexp, tapegrad::ndtr, tapegrad::ndtri,
    tapegrad::i0, tapegrad::i0e, tapegrad::i1, tapegrad::i1e, tapegrad::log_ndtr, tapegrad::psi,
    tapegrad::round, tapegrad::sinc, tapegrad::softmax, tapegrad::xlog1py, tapegrad::xlogy;
inline Variable multigammaln(const Variable& x, int64_t p, Where where = Where::current()) {
  return mvlgamma(x, p, where);
}
}  // namespace special

// Names of NumPy, Keras and TensorFlow:
inline Variable reduce_sum(const Variable& x, Where where = Where::current()) {
  return sum(x, where);
}
inline Variable reduce_sum(const Variable& x, const Dims& axis, bool keepdims = false,
                           Where where = Where::current()) {
  return sum(x, axis, keepdims, where);
}
inline Variable reduce_mean(const Variable& x, Where where = Where::current()) {
  return mean(x, where);
}
inline Variable reduce_mean(const Variable& x, const Dims& axis, bool keepdims = false,
                            Where where = Where::current()) {
  return mean(x, axis, keepdims, where);
}
inline Variable reduce_max(const Variable& x, Where where = Where::current()) {
  return amax(x, where);
}
inline Variable reduce_max(const Variable& x, const Dims& axis, bool keepdims = false,
                           Where where = Where::current()) {
  return amax(x, axis, keepdims, where);
}
inline Variable reduce_min(const Variable& x, Where where = Where::current()) {
  return amin(x, where);
}
inline Variable reduce_min(const Variable& x, const Dims& axis, bool keepdims = false,
                           Where where = Where::current()) {
  return amin(x, axis, keepdims, where);
}
inline Variable average(const Variable& x, Where where = Where::current()) {
  return mean(x, where);
}
inline Variable percentile(const Variable& x, double q, Where where = Where::current()) {
  return quantile(x, q / 100, {}, where);
}
inline Variable digitize(const Variable& x, const Variable& bins, Where where = Where::current()) {
  return bucketize(x, bins, /*right=*/true, where);
}
template <std::derived_from<Variable> V>
auto svd(const V&, const auto&...) {
  static_assert(detail::kNever<V>,
                "svd(x): type linalg::svd(x, false), whose third result is the transpose of V");
}
inline Variable to_categorical(const Variable& classes, int64_t num_classes,
                               Where where = Where::current()) {
  return one_hot(classes, num_classes, where).to(default_dtype());
}
inline Variable normal(double mean, double std, const Shape& shape,
                       Where where = Where::current()) {
  Variable x = empty(shape);
  return normal_(x, mean, std, default_generator(), where);
}
inline Variable random_normal(const Shape& shape) { return randn(shape); }
inline Variable random_uniform(const Shape& shape) { return rand(shape); }

// autograd::grad, autograd::functional::jacobian ...
namespace autograd {
using namespace ::tapegrad;
namespace functional = ::tapegrad;
template <typename V = void>
void set_detect_anomaly(bool) {
  static_assert(detail::kNever<V>,
                "set_detect_anomaly(true): type `const AnomalyMode anomaly;` in "
                "the scope that is examined");
}
}  // namespace autograd

}  // namespace tapegrad
