// LU factorisation. ops/linalg.h describes batches, dtypes, errors and gradients of all linear
// algebra ops.
#pragma once

#include "core/tape/variable.h"

namespace tapegrad {
namespace linalg {

struct Lu {
  static constexpr int kParts = 3;
  Variable p, l, u;
  Variable operator[](int part) const;
};
/// Computes A = P L U for square A with partial pivoting: P is a permutation, L lower triangular
/// with ones on its diagonal, U upper triangular. The gradient requires a nonsingular A.
Lu lu(const Variable& x, Where where = Where::current());
struct LuFactor {
  static constexpr int kParts = 2;
  Variable lu;      // L below the diagonal, U on and above it
  Variable pivots;  // int32 [..., n]: row i was exchanged with row pivots[i], counted from 1
  Variable operator[](int part) const;
};
/// Returns the same factors as lu() in one matrix, for lu_solve().
LuFactor lu_factor(const Variable& x, Where where = Where::current());
/// Solves A X = B, or X A = B if left = false, given the factors of A.
Variable lu_solve(const Variable& lu, const Variable& pivots, const Variable& b, bool left = true,
                  Where where = Where::current());
// Rejects linalg::eig() and eigvals(): eigenvalues of a matrix that is not symmetric are complex.
template <typename V = void>
auto eig(const auto&...) {
  static_assert(detail::kNever<V>,
                "linalg::eig: tensors are real; type linalg::eigh(x) for a "
                "symmetric matrix");
}
template <typename V = void>
auto eigvals(const auto&...) {
  static_assert(detail::kNever<V>,
                "linalg::eigvals: tensors are real; type linalg::eigvalsh(x) "
                "for a symmetric matrix");
}

}  // namespace linalg
}  // namespace tapegrad
