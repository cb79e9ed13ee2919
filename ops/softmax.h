// softmax, log_softmax and softmin along one dimension. A row whose elements are all -inf gives
// NaN, as in PyTorch.
#pragma once

#include <optional>

#include "core/base/by_name.h"
#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// Returns exp(x) / sum(exp(x)) along dim, computed after subtracting the maximum so that it never
/// overflows.
Variable softmax(const Variable& x, int dim, Where where = Where::current());

/// Returns x - log(sum(exp(x))) along dim, computed without overflow.
Variable log_softmax(const Variable& x, int dim, Where where = Where::current());

/// Returns softmax(-x): the smallest element has the largest probability.
Variable softmin(const Variable& x, int dim, Where where = Where::current());

/// Options of softmax(x, {.dim = 1}).
struct SoftmaxOptions {
  ByName by_name = {};
  int dim = -1;
  std::optional<DType> dtype = {};  // dtype to which x is converted first
};
Variable softmax(const Variable& x, SoftmaxOptions options, Where where = Where::current());
Variable log_softmax(const Variable& x, SoftmaxOptions options, Where where = Where::current());

// Overloads with a dtype to which x is converted first: softmax(x, 1, f64), softmax(x, 1, {.dtype =
// f64}).
inline Variable softmax(const Variable& x, int dim, DTypeOption option,
                        Where where = Where::current()) {
  return softmax(x.to(option.dtype, where), dim, where);
}
inline Variable log_softmax(const Variable& x, int dim, DTypeOption option,
                            Where where = Where::current()) {
  return log_softmax(x.to(option.dtype, where), dim, where);
}
template <std::same_as<DType> D>
Variable softmax(const Variable& x, int dim, D dtype, Where where = Where::current()) {
  return softmax(x.to(dtype, where), dim, where);
}
template <std::same_as<DType> D>
Variable log_softmax(const Variable& x, int dim, D dtype, Where where = Where::current()) {
  return log_softmax(x.to(dtype, where), dim, where);
}
template <std::derived_from<Variable> V>
Variable softmax(const V& x) {
  static_assert(detail::kNever<V>, "type softmax(x, -1): the dimension must be given");
  return x;
}
template <std::derived_from<Variable> V>
Variable log_softmax(const V& x) {
  static_assert(detail::kNever<V>, "type log_softmax(x, -1): the dimension must be given");
  return x;
}

namespace kernels {

// Tensors are contiguous, [outer, n, inner]; rows are along n.

extern Kernel<void(const Tensor&x, Tensor&y)> softmax, log_softmax;
/// Computes dx = y * (dy - sum(y * dy)).
extern Kernel<void(const Tensor& y, const Tensor& dy, Tensor& dx)> softmax_backward;
/// Computes dx = dy - exp(y) * sum(dy).
extern Kernel<void(const Tensor& y, const Tensor& dy, Tensor& dx)> log_softmax_backward;

}  // namespace kernels
}  // namespace tapegrad
