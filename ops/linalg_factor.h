// Orthogonal factors of matrices and what is computed from them. ops/linalg.h has what all ops of
// linear algebra share: batches, dtypes, errors, gradients, and the layout of kernels' matrices.
#pragma once

#include <optional>

#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

namespace linalg {

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

}  // namespace linalg

namespace kernels {

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
