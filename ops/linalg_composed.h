// Functions and norms of matrices, composed of other ops. ops/linalg.h has what all ops of linear
// algebra share: batches, dtypes, errors, gradients.
#pragma once

#include <span>
#include <string_view>

#include "core/tape/variable.h"

namespace tapegrad {

namespace linalg {

/// A A ... A, n times; of the inverse for a negative n; the identity for 0.
Variable matrix_power(const Variable& x, int64_t n, Where where = Where::current());
/// The exponential sum A^k / k!, by scaling, a Pade approximant and squaring (Higham 2005).
Variable matrix_exp(const Variable& x, Where where = Where::current());
/// The product of two or more matrices in the order that costs the fewest multiplications. The
/// first and the last may be vectors, a row and a column.
Variable multi_dot(std::span<const Variable> factors, Where where = Where::current());
inline Variable multi_dot(std::initializer_list<Variable> factors, Where where = Where::current()) {
  return multi_dot(std::span<const Variable>(factors.begin(), factors.size()), where);
}

/// The norm of all elements, or over the dimensions, as one vector: (sum |x|^ord)^(1/ord), the
/// largest magnitude for inf, the smallest for -inf, how many are not 0 for 0. At zero the gradient
/// is 0.
Variable vector_norm(const Variable& x, double ord = 2.0, const Dims& dims = {},
                     bool keepdim = false, Where where = Where::current());
/// Norms of matrices in the two dimensions: "fro" the root of the sum of squares, "nuc" the sum of
/// the singular values.
Variable matrix_norm(const Variable& x, std::string_view ord = "fro", const Dims& dims = {-2, -1},
                     bool keepdim = false, Where where = Where::current());
/// 2 and -2: the largest and the smallest singular value; 1 and -1 the largest and the smallest
/// sum of magnitudes of a column, inf and -inf of a row. Else an ArgumentError.
Variable matrix_norm(const Variable& x, double ord, const Dims& dims = {-2, -1},
                     bool keepdim = false, Where where = Where::current());

}  // namespace linalg

}  // namespace tapegrad
