// Orthogonal factors of matrices and functions computed from them. ops/linalg.h describes batches,
// dtypes, errors and gradients of all linear algebra ops, and the layout of the kernels' matrices.
#pragma once

#include <optional>

#include "core/base/by_name.h"
#include "core/base/choice.h"
#include "core/dispatch/dispatcher.h"
#include "core/tape/variable.h"

namespace tapegrad {

namespace linalg {

enum class QrMode {
  kReduced,   // Q [..., m, k] and R [..., k, n], k = min(m, n)
  kComplete,  // Q [..., m, m] and R [..., m, n]; no gradient where m > n
  kR,         // R only, Q is empty; no gradient
};
constexpr auto choice_names(QrMode) {
  return std::to_array<ChoiceName<QrMode>>(
      {{"reduced", QrMode::kReduced}, {"complete", QrMode::kComplete}, {"r", QrMode::kR}});
}
struct Qr {
  static constexpr int kParts = 2;
  Variable q, r;
  Variable operator[](int part) const;
};
/// Computes A = Q R with orthonormal columns of Q and upper triangular R, whose diagonal may be
/// negative. The gradient requires the first k columns to be linearly independent.
Qr qr(const Variable& x, Choice<QrMode> mode = QrMode::kReduced, Where where = Where::current());

struct Svd {
  static constexpr int kParts = 3;
  Variable u, s, vh;
  Variable operator[](int part) const;
};
/// Computes A = U diag(S) V^T with nonnegative S in descending order. For [..., m, n] and k =
/// min(m, n), U is [..., m, k] and V^T is [..., k, n]. With full_matrices they are square, and
/// gradients of the vectors beyond the k-th are ignored, because these vectors are an arbitrary
/// basis.
Svd svd(const Variable& x, bool full_matrices = true, Where where = Where::current());
/// Option of svd(x, {.full_matrices = false}).
struct SvdOptions {
  ByName by_name = {};
  bool full_matrices = true;
};
Svd svd(const Variable& x, SvdOptions options, Where where = Where::current());
/// Returns the singular values.
Variable svdvals(const Variable& x, Where where = Where::current());

struct Eigh {
  static constexpr int kParts = 2;
  Variable eigenvalues, eigenvectors;
  Variable operator[](int part) const;
};
/// Computes eigenvalues in ascending order, and eigenvectors as columns, of a symmetric matrix.
/// Reads only the lower (or upper) triangle; the gradient is symmetric.
Eigh eigh(const Variable& x, bool upper = false, Where where = Where::current());
Variable eigvalsh(const Variable& x, bool upper = false, Where where = Where::current());

struct PinvOptions {
  double atol = 0;                  // singular values up to max(atol, rtol * largest) count as 0
  std::optional<double> rtol = {};  // default max(m, n) eps, or 0 if atol is given
};
/// Returns the Moore-Penrose pseudoinverse, [..., m, n] -> [..., n, m]. The gradient assumes
/// constant rank (Golub and Pereyra 1973).
Variable pinv(const Variable& x, PinvOptions options = {}, Where where = Where::current());

struct LeastSquares {
  Variable solution;         // [..., n, k]
  Variable residuals;        // |A X - B|^2 of each column if m > n = rank, else empty
  Variable rank;             // int64, one per matrix
  Variable singular_values;  // of each matrix
};
/// Returns the least-squares solution of A X = B with the smallest norm, for A [..., m, n] and B
/// [..., m, k], by singular values. Singular values up to rcond times the largest count as 0
/// (default max(m, n) eps).
LeastSquares lstsq(const Variable& a, const Variable& b, std::optional<double> rcond = {},
                   Where where = Where::current());

}  // namespace linalg

namespace kernels {

/// Replaces a by R in the upper triangle and the reflectors below it. scales [batch, min(m, n)]
/// receives the factors of the reflectors.
extern Kernel<void(Tensor& a, Tensor& scales)> qr_factor;
/// Replaces the reflectors by the first columns of Q.
extern Kernel<void(Tensor& q, const Tensor& scales)> qr_form;
/// u and vh may be empty and are then not computed. Overwrites a. info is nonzero if a is not
/// finite or the iteration does not converge.
extern Kernel<void(Tensor& a, Tensor& u, Tensor& s, Tensor& vh, Tensor& info)> svd;
/// Reads the lower triangle of a. If `vectors`, a receives the eigenvectors.
extern Kernel<void(Tensor& a, bool vectors, Tensor& values, Tensor& info)> eigh;

}  // namespace kernels

}  // namespace tapegrad
