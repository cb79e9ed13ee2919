// Linear algebra, by the names of torch.linalg: solving, factorisations, norms, functions of
// matrices.
//
// A matrix is the last two dimensions; the ones in front are a batch, and broadcast where there are
// two operands. float32 and float64, else a DTypeError. A matrix that has no answer (singular, not
// positive definite, not finite) is a LinAlgError that says which of the batch it is. Computed by
// LAPACK.
//
// Gradients are right to any order. Those of factors exist where the factors are unique but for
// signs: a gradient through the vectors of svd and eigh is not finite where two singular values or
// eigenvalues are equal; what depends on the values only is always fine.
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

/// A matrix for which the question has no answer.
struct LinAlgError : ArgumentError {
  using ArgumentError::ArgumentError;
};

namespace linalg {

/// X with A X = B, or X A = B with left = false, for square A [..., n, n] by LU factors. B is a
/// matrix [..., n, k]; it is taken as a batch of vectors when it is [n], or when its shape is A's
/// without the last dimension. LinAlgError when A is singular.
Variable solve(const Variable& a, const Variable& b, bool left = true,
               Where where = Where::current());
/// LinAlgError when x is singular. solve() is faster and more accurate than a product with it.
Variable inv(const Variable& x, Where where = Where::current());
/// 1 of an empty matrix. The gradient is the matrix of cofactors, also of a singular matrix.
Variable det(const Variable& x, Where where = Where::current());
struct Slogdet {
  Variable sign, logabsdet;
};
/// The determinant as sign and logarithm of its magnitude, which cannot overflow: 0 and -inf of a
/// singular matrix. The gradient of that is a LinAlgError.
Slogdet slogdet(const Variable& x, Where where = Where::current());

struct TriangularOptions {
  bool upper;                  // which triangle of A is read
  bool left = true;            // A X = B, else X A = B
  bool unitriangular = false;  // the diagonal counts as ones
};
/// X with A X = B for a triangular A; a zero on the diagonal gives inf or NaN.
Variable solve_triangular(const Variable& a, const Variable& b, TriangularOptions options,
                          Where where = Where::current());

/// Lower triangular L, with positive diagonal, of A = L L^T; or upper U of A = U^T U. Only that
/// triangle of x is read; the gradient is symmetric, as x is. LinAlgError unless x is positive
/// definite.
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

/// X with A X = B, given the Cholesky factor of A: lower, or upper.
Variable cholesky_solve(const Variable& b, const Variable& factor, bool upper = false,
                        Where where = Where::current());

struct TriangularSolveOptions {
  bool upper = true;
  bool transpose = false;  // A^T X = B
  bool unitriangular = false;
};
/// linalg::solve_triangular in the older form: X with A X = B.
Variable triangular_solve(const Variable& b, const Variable& a, TriangularSolveOptions options = {},
                          Where where = Where::current());

namespace kernels {

// Matrices are stored by columns, as LAPACK has them: a matrix [m, n] is a contiguous tensor
// [batch, n, m]. All of one dtype, but pivots and info, which are int32; info is [batch], and 0 for
// a matrix that has an answer.

/// a = P L U in place, square. pivots [batch, n], from 1: row i was exchanged with row pivots[i].
/// info: the first zero on U's diagonal.
extern Kernel<void(Tensor& a, Tensor& pivots, Tensor& info)> lu_factor;
/// b = A^-1 b in place, or A^-T b, from these factors.
extern Kernel<void(const Tensor& lu, const Tensor& pivots, bool transposed, Tensor& b)> lu_solve;
/// b = A^-1 b, or A^-T b, for one triangle of a.
struct Triangle {
  bool upper, transposed, unit;
};
extern Kernel<void(const Tensor& a, Triangle triangle, Tensor& b)> triangular_solve;
/// The lower triangle of a = L L^T in place; above it 0. info: the minor that is not positive.
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
