// Functions and norms of matrices, composed of other ops. ops/linalg.h describes batches, dtypes,
// errors and gradients of all linear algebra ops.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "core/base/by_name.h"
#include "core/tape/variable.h"

namespace tapegrad {

namespace linalg {

/// Computes A^n. A negative n uses the inverse; n = 0 gives the identity.
Variable matrix_power(const Variable& x, int64_t n, Where where = Where::current());
/// Returns the matrix exponential sum A^k / k!, by scaling and squaring with a Pade approximant
/// (Higham 2005).
Variable matrix_exp(const Variable& x, Where where = Where::current());
/// Returns the product of two or more matrices in the order with the fewest multiplications. The
/// first operand may be a vector (a row), and so may the last (a column).
Variable multi_dot(std::span<const Variable> factors, Where where = Where::current());
Variable multi_dot(std::initializer_list<Variable> factors, Where where = Where::current());

/// Returns the vector norm (sum |x|^ord)^(1/ord) over dims, or over all elements. ord = inf gives
/// the largest magnitude, -inf the smallest, 0 the number of nonzero elements. The gradient at zero
/// is 0.
Variable vector_norm(const Variable& x, double ord = 2.0, const Dims& dims = {},
                     bool keepdim = false, Where where = Where::current());
/// Options of vector_norm(x, {.ord = 3, .dim = 1}).
struct VectorNormOptions {
  ByName by_name = {};
  double ord = 2.0;
  Dims dim = {};
  bool keepdim = false;
};
Variable vector_norm(const Variable& x, const VectorNormOptions& options,
                     Where where = Where::current());
/// Computes matrix norms over two dimensions: "fro" is the root of the sum of squares, "nuc" the
/// sum of the singular values.
Variable matrix_norm(const Variable& x, std::string_view ord = "fro", const Dims& dims = {-2, -1},
                     bool keepdim = false, Where where = Where::current());
/// Computes norms from singular values and sums: ord = 2 and -2 give the largest and smallest
/// singular value; 1 and -1 the largest and smallest column sum of magnitudes; inf and -inf the
/// largest and smallest row sum. Throws ArgumentError for any other ord.
Variable matrix_norm(const Variable& x, double ord, const Dims& dims = {-2, -1},
                     bool keepdim = false, Where where = Where::current());

Variable vecdot(const Variable& a, const Variable& b, int dim = -1, Where where = Where::current());
/// Returns the ratio of the largest to the smallest singular value.
Variable cond(const Variable& x, Where where = Where::current());
/// Returns norm(x, p) * norm(inv(x), p) for p = 1, -1, inf, -inf, and the ratio of singular values
/// for 2 and its inverse for -2.
Variable cond(const Variable& x, double p, Where where = Where::current());
/// Returns the first columns of the product of the Householder reflections I - tau[i] v v^T, where
/// v is 0 above element i, 1 at element i, and column i of x below.
Variable householder_product(const Variable& x, const Variable& tau,
                             Where where = Where::current());
/// Solves tensordot(a, x, x.dim()) = b for x. a is [shape of b, shape of x] after its dimensions
/// `dims` are moved to the end; both shapes have the same number of elements.
Variable tensorsolve(const Variable& a, const Variable& b, const Dims& dims = {},
                     Where where = Where::current());
/// Returns the inverse of tensordot(x, y, ind) as a function of y: the first `ind` dimensions of x
/// have as many elements as the others.
Variable tensorinv(const Variable& x, int ind = 2, Where where = Where::current());
/// Returns the number of singular values above rtol times the largest. rtol defaults to eps
/// max(rows, columns).
Variable matrix_rank(const Variable& x, std::optional<double> rtol = {},
                     Where where = Where::current());

}  // namespace linalg

/// Returns the inverse of L L^T, or of U^T U if `upper`, for the factor returned by cholesky().
Variable cholesky_inverse(const Variable& factor, bool upper = false,
                          Where where = Where::current());

struct PcaLowrank {
  static constexpr int kParts = 3;
  Variable u, s, v;
  Variable operator[](int part) const;
};
/// Returns the first q principal components of the rows of x [n, d]: x, minus its mean if `center`,
/// is about U diag(S) V^T, with V [d, q]. Computed by linalg::svd, without random numbers. q
/// defaults to 6, or to the smaller size of x if that is less than 6.
PcaLowrank pca_lowrank(const Variable& x, std::optional<int64_t> q = {}, bool center = true,
                       Where where = Where::current());

}  // namespace tapegrad
