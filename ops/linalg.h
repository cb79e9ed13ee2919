// Linear algebra, named as in torch.linalg: solvers, factorizations, norms and matrix functions.
//
// A matrix is the last two dimensions of a tensor; leading dimensions are batches, and broadcast if
// there are two operands. The dtype must be float32 or float64, else DTypeError is thrown. If a
// matrix has no solution (singular, not positive definite, not finite), LinAlgError names its
// position in the batch. LAPACK does the computation.
//
// Gradients are exact to any order. Gradients of factors exist where the factors are unique except
// for signs: a gradient through the vectors of svd and eigh is not finite if two singular values or
// eigenvalues are equal. Results that depend only on the singular values or eigenvalues are not
// affected.
//
//   Variable x = linalg::solve(a, b);
//   auto [u, s, vh] = linalg::svd(a, /*full_matrices=*/false);
#pragma once

#include "core/base/by_name.h"
#include "core/base/error.h"
#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"
#include "ops/linalg_composed.h"
#include "ops/linalg_factor.h"

namespace tapegrad {

/// Error for a matrix for which the problem has no solution.
struct LinAlgError : ArgumentError {
  using ArgumentError::ArgumentError;
};

namespace linalg {

/// Solves A X = B, or X A = B if left = false, for square A [..., n, n] by LU factorization. B is a
/// matrix [..., n, k]; or vectors, if B is [n] or has A's shape without the last dimension. Throws
/// LinAlgError if A is singular.
Variable solve(const Variable& a, const Variable& b, bool left = true,
               Where where = Where::current());
/// Returns the inverse. Throws LinAlgError if x is singular. solve() is faster and more accurate
/// than a product with the inverse.
Variable inv(const Variable& x, Where where = Where::current());
/// Returns the determinant; 1 for an empty matrix. The gradient is the cofactor matrix, also for a
/// singular matrix.
Variable det(const Variable& x, Where where = Where::current());
struct Slogdet {
  static constexpr int kParts = 2;
  Variable sign, logabsdet;
  Variable operator[](int part) const;
};
/// Returns sign and logarithm of the magnitude of the determinant, which cannot overflow. A
/// singular matrix gives 0 and -inf, for which the gradient throws LinAlgError.
Slogdet slogdet(const Variable& x, Where where = Where::current());

struct TriangularOptions {
  bool upper;                  // which triangle of A is read
  bool left = true;            // solve A X = B, else X A = B
  bool unitriangular = false;  // assume ones on the diagonal
};
/// Solves A X = B for triangular A. A zero on the diagonal gives inf or NaN.
Variable solve_triangular(const Variable& a, const Variable& b, TriangularOptions options,
                          Where where = Where::current());

/// Overload with PyTorch's options by position: solve_triangular(a, b, false).
template <std::same_as<bool> B>
Variable solve_triangular(const Variable& a, const Variable& b, B upper, bool left = true,
                          bool unitriangular = false, Where where = Where::current()) {
  return solve_triangular(a, b, TriangularOptions{upper, left, unitriangular}, where);
}

/// Computes the Cholesky factorization: lower triangular L of A = L L^T, or upper triangular U of A
/// = U^T U, with a positive diagonal. Reads only this triangle of x; the gradient is symmetric.
/// Throws LinAlgError unless x is positive definite.
Variable cholesky(const Variable& x, bool upper = false, Where where = Where::current());
struct CholeskyOptions {
  ByName by_name = {};
  bool upper = false;
};
template <std::convertible_to<const Variable&> V>
Variable cholesky(const V& x, CholeskyOptions options, Where where = Where::current()) {
  return cholesky(x, options.upper, where);
}

}  // namespace linalg

/// Solves A X = B, given the lower (or upper) Cholesky factor of A.
Variable cholesky_solve(const Variable& b, const Variable& factor, bool upper = false,
                        Where where = Where::current());

struct TriangularSolveOptions {
  bool upper = true;
  bool transpose = false;  // solve A^T X = B
  bool unitriangular = false;
};
/// Returns the legacy form of linalg::solve_triangular: solves A X = B.
Variable triangular_solve(const Variable& b, const Variable& a, TriangularSolveOptions options = {},
                          Where where = Where::current());

namespace kernels {

// Matrices are stored by columns, as in LAPACK: a matrix [m, n] is a contiguous tensor
// [batch, n, m]. All tensors have one dtype, except pivots and info, which are int32. info is
// [batch] and 0 for success.

/// Factorizes a = P L U in place, for square a. pivots [batch, n] are counted from 1: row i was
/// exchanged with row pivots[i]. info is the position of the first zero on U's diagonal.
extern Kernel<void(Tensor& a, Tensor& pivots, Tensor& info)> lu_factor;
/// Computes b = A^-1 b in place, or A^-T b, given the LU factors.
extern Kernel<void(const Tensor& lu, const Tensor& pivots, bool transposed, Tensor& b)> lu_solve;
/// Triangle of a that triangular_solve reads, for b = A^-1 b, or A^-T b if transposed, in place.
struct Triangle {
  bool upper, transposed, unit;
};
extern Kernel<void(const Tensor& a, Triangle triangle, Tensor& b)> triangular_solve;
/// Computes the lower triangular L of a = L L^T in place, with zeros above the diagonal. info is
/// the order of the leading minor that is not positive.
extern Kernel<void(Tensor& a, Tensor& info)> cholesky;

}  // namespace kernels
}  // namespace tapegrad
