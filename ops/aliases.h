// Alternative names of ops: PyTorch's aliases, and names of NumPy, Keras, TensorFlow and Flux. The
// headers of the ops describe the functions.
#pragma once

#include "core/autograd/derivatives.h"
#include "core/cuda.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/attention.h"
#include "ops/binary.h"
#include "ops/bitwise.h"
#include "ops/compare.h"
#include "ops/create.h"
#include "ops/diagonal.h"
#include "ops/distance.h"
#include "ops/dropout.h"
#include "ops/gamma.h"
#include "ops/index.h"
#include "ops/join.h"
#include "ops/linalg.h"
#include "ops/linalg_composed.h"
#include "ops/margin_loss.h"
#include "ops/matmul.h"
#include "ops/named_options.h"
#include "ops/products.h"
#include "ops/random.h"
#include "ops/reduce.h"
#include "ops/replace.h"
#include "ops/reshape.h"
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
Variable stddev(const Variable& x, VarOptions options = {}, Where where = Where::current());
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
Variable stop_gradient(const Variable& x);

// Ops of one operand:
Variable absolute(Variable x, Where where = Where::current());
Variable negative(Variable x, Where where = Where::current());
Variable log_sigmoid(Variable x, Where where = Where::current());
Variable fix(Variable x, Where where = Where::current());
Variable sgn(Variable x, Where where = Where::current());
Variable arcsin(Variable x, Where where = Where::current());
Variable arccos(Variable x, Where where = Where::current());
Variable arctan(Variable x, Where where = Where::current());
Variable arcsinh(Variable x, Where where = Where::current());
Variable arccosh(Variable x, Where where = Where::current());
Variable arctanh(Variable x, Where where = Where::current());
Variable inverse(const Variable& x, Where where = Where::current());
Variable det(const Variable& x, Where where = Where::current());
Variable matrix_exp(const Variable& x, Where where = Where::current());
inline Variable positive(const Variable& x) { return x; }
Variable ravel(const Variable& x, Where where = Where::current());
Variable fliplr(const Variable& x, Where where = Where::current());
Variable flipud(const Variable& x, Where where = Where::current());

// Ops of two operands:
Variable subtract(Operand a, Operand b);
Variable multiply(Operand a, Operand b);
Variable divide(Operand a, Operand b);
Variable true_divide(Operand a, Operand b);
Variable power(Operand a, Operand b);
Variable arctan2(Operand a, Operand b);
Variable mod(Operand a, Operand b);
Variable greater(const Operand& a, const Operand& b);
Variable greater_equal(const Operand& a, const Operand& b);
Variable less(const Operand& a, const Operand& b);
Variable less_equal(const Operand& a, const Operand& b);
Variable not_equal(const Operand& a, const Operand& b);
Variable rsub(Operand a, Operand b);
Variable vdot(const Variable& a, const Variable& b, Where where = Where::current());
Variable ger(const Variable& a, const Variable& b, Where where = Where::current());
Variable clip(Variable x, const Operand& min, const Operand& max);
Variable clip(Variable x, ClampOptions options, Where where = Where::current());

// Ops on shapes:
Variable expand_dims(const Variable& x, int dim, Where where = Where::current());
Variable broadcast_to(const Variable& x, const Shape& shape, Where where = Where::current());
Variable expand_as(const Variable& x, const Variable& other, Where where = Where::current());
Variable view_as(const Variable& x, const Variable& other, Where where = Where::current());
Variable reshape_as(const Variable& x, const Variable& other, Where where = Where::current());
Variable swapaxes(const Variable& x, int dim0, int dim1, Where where = Where::current());
Variable swapdims(const Variable& x, int dim0, int dim1, Where where = Where::current());
Variable moveaxis(const Variable& x, const Dims& source, const Dims& destination,
                  Where where = Where::current());
Variable concat(VariableList inputs, int dim = 0, Where where = Where::current());
Variable concatenate(VariableList inputs, int dim = 0, Where where = Where::current());
Variable row_stack(VariableList inputs, Where where = Where::current());
std::vector<Variable> vsplit(const Variable& x, const Sections& sections,
                             Where where = Where::current());
std::vector<Variable> hsplit(const Variable& x, const Sections& sections,
                             Where where = Where::current());
std::vector<Variable> dsplit(const Variable& x, const Sections& sections,
                             Where where = Where::current());
/// Transposes a matrix.
Variable transpose(const Variable& x, Where where = Where::current());
/// Returns the indices of nonzero elements, one row for each. Equivalent to nonzero().
Variable argwhere(const Variable& x, Where where = Where::current());
Variable diagflat(const Variable& x, int64_t offset = 0, Where where = Where::current());
/// Returns the index of the interval between ascending boundaries for each element.
Variable bucketize(const Variable& x, const Variable& boundaries, bool right = false,
                   Where where = Where::current());
template <std::convertible_to<const Variable&> V>
Variable bucketize(const V& x, const Variable& boundaries, SearchSortedOptions options,
                   Where where = Where::current()) {
  return searchsorted(boundaries, x, options, where);
}
Variable trapz(const Variable& y, double dx = 1.0, int dim = -1, Where where = Where::current());
Variable trapz(const Variable& y, const Variable& x, int dim = -1, Where where = Where::current());
/// Sorts along dimension 0.
Variable msort(const Variable& x, Where where = Where::current());

// Linear algebra:
Variable matrix_power(const Variable& x, int64_t n, Where where = Where::current());
Variable pinverse(const Variable& x, Where where = Where::current());
Variable logdet(const Variable& x, Where where = Where::current());
Variable chain_matmul(VariableList factors, Where where = Where::current());
/// Overload for norm(x, "fro") and norm(x, "nuc").
template <std::convertible_to<std::string_view> Ord>
Variable norm(const Variable& x, const Ord& ord, Where where = Where::current()) {
  return std::string_view(ord) == "fro" ? norm(x, 2.0, where)
                                        : linalg::matrix_norm(x, ord, {-2, -1}, false, where);
}

// Random numbers:
void set_seed(uint64_t seed);
void set_random_seed(uint64_t seed);

// Devices:
inline constexpr Device kCPU = cpu, kCUDA = gpu;

// Gradients:
/// Returns the gradient of f at x, for a function with one output element; Flux's gradient(f, x).
template <std::invocable<const Variable&> F>
Variable gradient(F f, const Variable& x, Where where = Where::current()) {
  return vjp(f, x, {}, {}, where).product;
}
/// Overload for functions of several Variables: `auto [dw, db] = gradient(loss, w, b);`.
template <typename F, std::derived_from<Variable>... X>
requires(sizeof...(X) > 1) &&
    std::invocable<F, const X&...> std::array<Variable, sizeof...(X)> gradient(F f,
                                                                               const X&... xs) {
  return [&]<size_t... i>(std::index_sequence<i...>)->std::array<Variable, sizeof...(X)> {
    const auto of_list = [&](const std::vector<Variable>& list) { return f(list[i]...); };
    const auto result = vjp(of_list, std::vector<Variable>{xs...}, {}, {}, Where());
    return {result.products[i]...};
  }
  (std::index_sequence_for<X...>());
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
Variable scaled_dot_product_attention(const Variable& query, const Variable& key,
                                      const Variable& value, const Variable& attn_mask,
                                      double dropout_p, bool is_causal = false,
                                      std::optional<double> scale = {}, bool enable_gqa = false,
                                      Where where = Where::current());
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
Variable normalize(const Variable& x, NormalizeOptions options, Where where = Where::current());
namespace linalg {
Variable norm(const Variable& x, Where where = Where::current());
/// Returns the norm of matrices for two dimensions, and of vectors for one dimension.
Variable norm(const Variable& x, double ord, const Dims& dims, bool keepdim = false,
              Where where = Where::current());
template <typename Ord>
requires std::constructible_from<std::string_view, const Ord&> Variable
norm(const Variable& x, const Ord& ord, Where where = Where::current()) {
  return matrix_norm(x, ord, {-2, -1}, false, where);
}
Variable norm(const Variable& x, double ord, Where where = Where::current());
using tapegrad::cross, tapegrad::diagonal, tapegrad::matmul;
/// Returns powers of x in ascending order; the function vander() has the opposite order.
Variable vander(const Variable& x, std::optional<int64_t> n = {}, Where where = Where::current());
}  // namespace linalg

int64_t numel(const Variable& x);
inline Variable operator+(const Variable& x) { return x; }
Variable scalar_tensor(Number value, TensorOptions options = {});
template <typename V = void>
Variable sparse_coo_tensor(const Variable&, const Variable&, const Shape& = {}) {
  static_assert(detail::kNever<V>,
                "sparse_coo_tensor: tensors are dense; multiply rows with index_select and "
                "index_add, and take nn::Embedding({.sparse = true}) for sparse gradients");
  return {};
}

// Names of SciPy and torch.special:
Variable expit(const Variable& x, Where where = Where::current());
Variable gammaln(const Variable& x, Where where = Where::current());
Variable psi(const Variable& x, Where where = Where::current());

namespace special {
using tapegrad::digamma, tapegrad::entr, tapegrad::erf, tapegrad::erfc, tapegrad::erfinv,
    tapegrad::exp2, tapegrad::expit, tapegrad::expm1, tapegrad::gammaln, tapegrad::log1p,
    tapegrad::log_softmax, tapegrad::logit, tapegrad::logsumexp, tapegrad::ndtr, tapegrad::ndtri,
    tapegrad::i0, tapegrad::i0e, tapegrad::i1, tapegrad::i1e, tapegrad::log_ndtr, tapegrad::psi,
    tapegrad::polygamma, tapegrad::round, tapegrad::sinc, tapegrad::softmax, tapegrad::xlog1py,
    tapegrad::xlogy, tapegrad::bessel_j0, tapegrad::bessel_j1, tapegrad::bessel_y0,
    tapegrad::bessel_y1, tapegrad::erfcx, tapegrad::zeta, tapegrad::airy_ai;
Variable gammainc(const Operand& a, const Operand& x);
Variable gammaincc(const Operand& a, const Operand& x);
Variable modified_bessel_i0(const Variable& x, Where where = Where::current());
Variable modified_bessel_i1(const Variable& x, Where where = Where::current());
Variable modified_bessel_k0(const Variable& x, Where where = Where::current());
Variable modified_bessel_k1(const Variable& x, Where where = Where::current());
Variable scaled_modified_bessel_k0(const Variable& x, Where where = Where::current());
Variable scaled_modified_bessel_k1(const Variable& x, Where where = Where::current());
Variable multigammaln(const Variable& x, int64_t p, Where where = Where::current());
}  // namespace special

// Names of NumPy, Keras and TensorFlow:
Variable reduce_sum(const Variable& x, Where where = Where::current());
Variable reduce_sum(const Variable& x, const Dims& axis, bool keepdims = false,
                    Where where = Where::current());
Variable reduce_mean(const Variable& x, Where where = Where::current());
Variable reduce_mean(const Variable& x, const Dims& axis, bool keepdims = false,
                     Where where = Where::current());
Variable reduce_max(const Variable& x, Where where = Where::current());
Variable reduce_max(const Variable& x, const Dims& axis, bool keepdims = false,
                    Where where = Where::current());
Variable reduce_min(const Variable& x, Where where = Where::current());
Variable reduce_min(const Variable& x, const Dims& axis, bool keepdims = false,
                    Where where = Where::current());
Variable average(const Variable& x, Where where = Where::current());
Variable percentile(const Variable& x, double q, Where where = Where::current());
Variable digitize(const Variable& x, const Variable& bins, Where where = Where::current());
template <std::derived_from<Variable> V>
auto svd(const V&, const auto&...) {
  static_assert(detail::kNever<V>,
                "svd(x): type linalg::svd(x, false), whose third result is the transpose of V");
}
Variable to_categorical(const Variable& classes, int64_t num_classes,
                        Where where = Where::current());
Variable normal(double mean, double std, const Shape& shape, Where where = Where::current());
Variable random_normal(const Shape& shape);
Variable random_uniform(const Shape& shape);

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
