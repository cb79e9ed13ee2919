// Linear algebra, named as in torch.linalg: solvers, factorizations, norms and matrix functions.
//
// A matrix is the last two dimensions of a tensor; leading dimensions are batches, and broadcast if
// there are two operands. The dtype must be float32 or float64, else DTypeError is thrown. If a
// matrix has no solution (singular, not positive definite, not finite), LinAlgError names its
// position in the batch. LAPACK does the computation.
//
// Gradients are exact to any order. Gradients of factors exist where the factors are unique except
// for signs: a gradient through the vectors of svd and eigh is not finite if two singular values or
// eigenvalues are equal. Results that depend on the values only are not affected.
//
//   Variable x = linalg::solve(a, b);
//   auto [u, s, vh] = linalg::svd(a, /*full_matrices=*/false);
#pragma once

#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// A matrix for which the problem has no solution.
struct LinAlgError : ArgumentError {
  using ArgumentError::ArgumentError;
};

namespace linalg {

/// Solves A X = B, or X A = B if left = false, for square A [..., n, n] by LU factorization. B is a
/// matrix [..., n, k]; or vectors, if B is [n] or has A's shape without the last dimension. Throws
/// LinAlgError if A is singular.
Variable solve(const Variable& a, const Variable& b, bool left = true,
               Where where = Where::current());
/// The inverse. Throws LinAlgError if x is singular. solve() is faster and more accurate than a
/// product with the inverse.
Variable inv(const Variable& x, Where where = Where::current());
/// The determinant; 1 for an empty matrix. The gradient is the cofactor matrix, also for a singular
/// matrix.
Variable det(const Variable& x, Where where = Where::current());
struct Slogdet {
  Variable sign, logabsdet;
};
/// Sign and logarithm of the magnitude of the determinant, which cannot overflow. A singular matrix
/// gives 0 and -inf, for which the gradient throws LinAlgError.
Slogdet slogdet(const Variable& x, Where where = Where::current());

struct TriangularOptions {
  bool upper;                  // which triangle of A is read
  bool left = true;            // solve A X = B, else X A = B
  bool unitriangular = false;  // assume ones on the diagonal
};
/// Solves A X = B for triangular A. A zero on the diagonal gives inf or NaN.
Variable solve_triangular(const Variable& a, const Variable& b, TriangularOptions options,
                          Where where = Where::current());

/// Cholesky factorization: lower triangular L of A = L L^T, or upper triangular U of A = U^T U,
/// with a positive diagonal. Reads only this triangle of x; the gradient is symmetric. Throws
/// LinAlgError unless x is positive definite.
Variable cholesky(const Variable& x, bool upper = false, Where where = Where::current());

enum class QrMode {
  kReduced,   // Q [..., m, k] and R [..., k, n], k = min(m, n)
  kComplete,  // Q [..., m, m] and R [..., m, n]; no gradient where m > n
  kR,         // R alone, Q empty; no gradient
};
struct Qr {
  Variable q, r;
};
/// A = Q R with orthonormal columns of Q and upper triangular R, whose diagonal may be negative.
/// The gradient wants the first k columns independent.
Qr qr(const Variable& x, QrMode mode = QrMode::kReduced, Where where = Where::current());

struct Svd {
  Variable u, s, vh;
};
/// A = U diag(S) V^T with S falling and not negative. Of [..., m, n] and k = min(m, n) U is
/// [..., m, k] and V^T [..., k, n]; or square with full_matrices, where gradients in the vectors
/// beyond the k-th are left out: these are any basis.
Svd svd(const Variable& x, bool full_matrices = true, Where where = Where::current());
/// The singular values alone.
Variable svdvals(const Variable& x, Where where = Where::current());

struct Eigh {
  Variable eigenvalues, eigenvectors;
};
/// Of a symmetric matrix: the eigenvalues rising, and the eigenvectors as columns. Only the lower
/// (or upper) triangle is read; the gradient is symmetric, as x is.
Eigh eigh(const Variable& x, bool upper = false, Where where = Where::current());
Variable eigvalsh(const Variable& x, bool upper = false, Where where = Where::current());

struct PinvOptions {
  double atol = 0;                  // singular values up to max(atol, rtol * largest) count as 0
  std::optional<double> rtol = {};  // max(m, n) eps, or 0 when atol is given
};
/// The pseudoinverse of Moore and Penrose, [..., m, n] -> [..., n, m]. The gradient is that at
/// constant rank (Golub and Pereyra 1973).
Variable pinv(const Variable& x, PinvOptions options = {}, Where where = Where::current());

struct LeastSquares {
  Variable solution;         // [..., n, k]
  Variable residuals;        // |A X - B|^2 for each column where m > n = rank; else empty
  Variable rank;             // int64, of each matrix
  Variable singular_values;  // of each matrix
};
/// The shortest X that minimises |A X - B| for A [..., m, n] and B [..., m, k], by way of the
/// singular values; those up to rcond times the largest count as 0 (max(m, n) eps when not given).
LeastSquares lstsq(const Variable& a, const Variable& b, std::optional<double> rcond = {},
                   Where where = Where::current());

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

/// Solves A X = B, given the lower (or upper) Cholesky factor of A.
Variable cholesky_solve(const Variable& b, const Variable& factor, bool upper = false,
                        Where where = Where::current());

struct TriangularSolveOptions {
  bool upper = true;
  bool transpose = false;  // solve A^T X = B
  bool unitriangular = false;
};
/// The legacy form of linalg::solve_triangular: solves A X = B.
Variable triangular_solve(const Variable& b, const Variable& a, TriangularSolveOptions options = {},
                          Where where = Where::current());

namespace kernels {

// Matrices are stored by columns, as in LAPACK: a matrix [m, n] is a contiguous tensor
// [batch, n, m]. All tensors have one dtype, except pivots and info, which are int32. info is
// [batch] and 0 for success.

/// Factorizes a = P L U in place, for square a. pivots [batch, n] start at 1: row i was exchanged
/// with row pivots[i]. info: the first zero on U's diagonal.
extern Kernel<void(Tensor& a, Tensor& pivots, Tensor& info)> lu_factor;
/// b = A^-1 b in place, or A^-T b, given the LU factors.
extern Kernel<void(const Tensor& lu, const Tensor& pivots, bool transposed, Tensor& b)> lu_solve;
/// b = A^-1 b, or A^-T b, for a triangle of a.
struct Triangle {
  bool upper, transposed, unit;
};
extern Kernel<void(const Tensor& a, Triangle triangle, Tensor& b)> triangular_solve;
/// Computes the lower triangular L of a = L L^T in place, with zeros above. info: the minor that is
/// not positive.
extern Kernel<void(Tensor& a, Tensor& info)> cholesky;
/// a becomes R in the upper triangle, below it and in scales [batch, min(m, n)] the reflections.
extern Kernel<void(Tensor& a, Tensor& scales)> qr_factor;
/// The first columns of Q, in place of the reflections.
extern Kernel<void(Tensor& q, const Tensor& scales)> qr_form;
/// u and vh may be empty: not wanted. a is overwritten. info: not finite, or no convergence.
extern Kernel<void(Tensor& a, Tensor& u, Tensor& s, Tensor& vh, Tensor& info)> svd;
/// The lower triangle of a is read; then a holds the vectors, if they are wanted.
extern Kernel<void(Tensor& a, bool vectors, Tensor& values, Tensor& info)> eigh;

}  // namespace kernels
}  // namespace tapegrad
