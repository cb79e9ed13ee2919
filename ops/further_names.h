// Functions that are composed of ops, and names of NumPy, SciPy, Keras and TensorFlow with their
// own defaults. They have no row in the catalog. See also ops/names.h.
#pragma once

#include "core/tape/recording.h"
#include "ops/attention.h"
#include "ops/distance.h"
#include "ops/index.h"
#include "ops/names.h"
#include "ops/noise.h"
#include "ops/scan.h"
#include "ops/softmax.h"

namespace tapegrad {

/// The most frequent value along dim, the smallest of several, and the index of its last
/// occurrence. No gradient of the index. Reads the values on the host.
ValuesIndices mode(const Variable& x, int dim = -1, bool keepdim = false,
                   Where where = Where::current());
/// Scales the slices along dim whose p-norm exceeds maxnorm down to it.
Variable renorm(const Variable& x, double p, int dim, double maxnorm,
                Where where = Where::current());
/// Removes all but the first of equal elements behind one another. No gradient.
Unique unique_consecutive(const Variable& x, Where where = Where::current());

/// The subsets of r elements of a vector, in the order of their positions: [subsets, r]. With
/// replacement, an element may occur several times in a subset.
Variable combinations(const Variable& x, int64_t r = 2, bool with_replacement = false,
                      Where where = Where::current());

/// Removes those of the dimensions whose size is 1. Returns a view. Throws ArgumentError for a
/// dimension that is given twice.
Variable squeeze(const Variable& x, const Dims& dims, Where where = Where::current());

struct Histogram {
  static constexpr int kParts = 2;
  Variable hist, bin_edges;
};
/// The number of elements in each of `bins` equal intervals from min to max; of all elements if min
/// equals max.
Histogram histogram(const Variable& x, int64_t bins = 10, double min = 0, double max = 0,
                    Where where = Where::current());
/// histogram(x, 10, {.range = {0, 1}})
struct HistogramOptions {
  ByName by_name = {};
  std::pair<double, double> range = {0, 0};
};
inline Histogram histogram(const Variable& x, int64_t bins, HistogramOptions options,
                           Where where = Where::current()) {
  return histogram(x, bins, options.range.first, options.range.second, where);
}

/// Windows of n values, of a period of n (for a DFT) or n - 1 steps.
Variable hann_window(int64_t n, bool periodic = true, TensorOptions options = {});
Variable hamming_window(int64_t n, bool periodic = true, TensorOptions options = {});
Variable blackman_window(int64_t n, bool periodic = true, TensorOptions options = {});
Variable bartlett_window(int64_t n, bool periodic = true, TensorOptions options = {});

namespace fft {
/// Frequencies of the outputs of fft and rfft of n samples at distance d.
Variable fftfreq(int64_t n, double d = 1.0, TensorOptions options = {});
Variable rfftfreq(int64_t n, double d = 1.0, TensorOptions options = {});
}  // namespace fft

/// y[b, o] = x1[b, :] weight[o, :, :] x2[b, :] + bias[o].
Variable bilinear(const Variable& x1, const Variable& x2, const Variable& weight,
                  const Variable& bias = {}, Where where = Where::current());
/// The distances between the rows of x [n, d], one for each pair: [n (n - 1) / 2].
Variable pdist(const Variable& x, double p = 2.0, Where where = Where::current());
/// PyTorch's options by position.
inline Variable scaled_dot_product_attention(const Variable& query, const Variable& key,
                                             const Variable& value, const Variable& attn_mask,
                                             double dropout_p, bool is_causal = false,
                                             std::optional<double> scale = {},
                                             Where where = Where::current()) {
  return scaled_dot_product_attention(query, key, value,
                                      AttentionOptions{attn_mask, dropout_p, is_causal, scale},
                                      default_generator(), where);
}
template <std::derived_from<Variable> V>
Variable scaled_dot_product_attention(const Variable& query, const Variable& key,
                                      const Variable& value, const V& attn_mask,
                                      Where where = Where::current()) {
  return scaled_dot_product_attention(query, key, value, attn_mask, 0.0, false, {}, where);
}

/// normalize(x, {.dim = -1})
struct NormalizeOptions {
  double p = 2.0;
  int dim = 1;
  double eps = 1e-12;
};
inline Variable normalize(const Variable& x, NormalizeOptions options,
                          Where where = Where::current()) {
  return normalize(x, options.p, options.dim, options.eps, where);
}
/// The inverse of L L^T, for a factor L of cholesky(), or of U^T U.
Variable cholesky_inverse(const Variable& factor, bool upper = false,
                          Where where = Where::current());

namespace linalg {
inline Variable norm(const Variable& x, Where where = Where::current()) {
  return tapegrad::norm(x, 2.0, where);
}
inline Variable norm(const Variable& x, double ord, const Dims& dims, bool keepdim = false,
                     Where where = Where::current()) {
  return vector_norm(x, ord, dims, keepdim, where);
}
using tapegrad::cross, tapegrad::diagonal, tapegrad::matmul;
Variable vecdot(const Variable& a, const Variable& b, int dim = -1, Where where = Where::current());
/// The ratio of the largest to the smallest singular value.
Variable cond(const Variable& x, Where where = Where::current());
/// The number of singular values above rtol times the largest. Default: eps max(rows, columns).
Variable matrix_rank(const Variable& x, std::optional<double> rtol = {},
                     Where where = Where::current());
}  // namespace linalg

/// promote() by PyTorch's name, and the dtype of an op of both.
inline DType promote_types(DType a, DType b) { return promote(a, b); }
DType result_type(const Operand& a, const Operand& b);
inline DType get_default_dtype() { return default_dtype(); }
inline Variable scalar_tensor(Number value, TensorOptions options = {}) {
  return scalar(value, options);
}
/// The numbers of a float type: `x.masked_fill(mask, finfo(x.dtype()).min)`.
struct FloatInfo {
  int bits;
  double eps, max, min, tiny;  // min is -max; tiny, the smallest normal number
};
FloatInfo finfo(DType dtype);  // throws DTypeError unless it is a float type
struct IntegerInfo {
  int bits;
  int64_t max, min;
};
IntegerInfo iinfo(DType dtype);  // throws DTypeError unless it is an integer type

/// The number of threads that ops on the CPU use when this thread calls them; initially that of
/// OMP_NUM_THREADS, else of the processors. Throws ArgumentError outside of [1, 1024].
void set_num_threads(int64_t count);
int64_t get_num_threads();

/// The state of the default generator.
inline RandomState get_rng_state() { return default_generator().state(); }
inline void set_rng_state(RandomState state) { default_generator().set_state(state); }
inline uint64_t initial_seed() { return default_generator().state().seed; }

/// is_recording() and Recording by PyTorch's names.
inline bool is_grad_enabled() { return is_recording(); }
using AutoGradMode = Recording;
struct GradMode {
  static bool is_enabled() { return is_recording(); }
  template <typename V = void>
  static void set_enabled(bool) {
    static_assert(detail::kNever<V>,
                  "GradMode::set_enabled(false): type `const Recording scope(false);` "
                  "or `const NoGrad guard;`");
  }
};
template <typename V = void>
void sparse_coo_tensor(const auto&...) {
  static_assert(detail::kNever<V>,
                "sparse_coo_tensor: tensors are dense; multiply rows with index_select and "
                "index_add, and take nn::Embedding({.sparse = true}) for sparse gradients");
}
template <typename V = void>
void set_grad_enabled(bool) {
  static_assert(detail::kNever<V>,
                "set_grad_enabled(false): type `const Recording scope(false);` "
                "or `const NoGrad guard;`");
}

// SciPy's and torch.special's names.
inline Variable expit(const Variable& x, Where where = Where::current()) {
  return sigmoid(x, where);
}
inline Variable gammaln(const Variable& x, Where where = Where::current()) {
  return lgamma(x, where);
}
inline Variable psi(const Variable& x, Where where = Where::current()) { return digamma(x, where); }
/// -x log(x); 0 at 0, and -inf below.
Variable entr(const Variable& x, Where where = Where::current());
/// The distribution function of the standard normal distribution, and its inverse.
Variable ndtr(const Variable& x, Where where = Where::current());
Variable ndtri(const Variable& x, Where where = Where::current());
/// log of the multivariate gamma function of dimension p.
Variable mvlgamma(const Variable& x, int64_t p, Where where = Where::current());

namespace special {
using tapegrad::digamma, tapegrad::entr, tapegrad::erf, tapegrad::erfc, tapegrad::erfinv,
    tapegrad::exp2, tapegrad::expit, tapegrad::expm1, tapegrad::gammaln, tapegrad::log1p,
    tapegrad::log_softmax, tapegrad::logit, tapegrad::logsumexp, tapegrad::ndtr, tapegrad::ndtri,
    tapegrad::psi, tapegrad::round, tapegrad::sinc, tapegrad::softmax, tapegrad::xlogy;
inline Variable multigammaln(const Variable& x, int64_t p, Where where = Where::current()) {
  return mvlgamma(x, p, where);
}
}  // namespace special

// Of NumPy, Keras and TensorFlow.
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
inline Variable to_categorical(const Variable& classes, int64_t num_classes,
                               Where where = Where::current()) {
  return one_hot(classes, num_classes, where).to(default_dtype());
}
inline Variable normal(double mean, double std, const Shape& shape) {
  Variable x = empty(shape);
  return normal_(x, mean, std);
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
