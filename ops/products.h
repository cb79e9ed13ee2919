// Further tensor products: cross, kron, tensordot, bilinear, and products with addition.
#pragma once

#include <optional>

#include "core/tape/variable.h"
#include "ops/einsum.h"

namespace tapegrad {

/// Returns the cross product of 3-vectors along dim (default: the first dimension of size 3). a and
/// b broadcast.
Variable cross(const Variable& a, const Variable& b, std::optional<int> dim = {},
               Where where = Where::current());
/// Returns the Kronecker product: [m, n] and [p, q] give [m p, n q]. Missing leading dimensions
/// count as size 1.
Variable kron(const Variable& a, const Variable& b, Where where = Where::current());

/// Sums over the last `dims` dimensions of a and the first of b, or over the listed dimensions in
/// pairs. The result has the remaining dimensions of a, then those of b.
Variable tensordot(const Variable& a, const Variable& b, int dims = 2,
                   Where where = Where::current());
Variable tensordot(const Variable& a, const Variable& b, const Dims& dims_a, const Dims& dims_b,
                   Where where = Where::current());

/// Overload with pairs of dimensions: tensordot(a, b, {{1, 0}, {0, 1}}).
Variable tensordot(const Variable& a, const Variable& b, const std::pair<Dims, Dims>& dims,
                   Where where = Where::current());

// Functions that return beta input + alpha times a product; input broadcasts to the product. With
// beta = 0, input is not read, so NaN in it has no effect.

struct AddOptions {
  Number beta = 1;  // whole numbers keep the dtype of integer operands
  Number alpha = 1;
};
/// Returns beta input + alpha a b, for matrices [m, k] and [k, n].
Variable addmm(const Variable& input, const Variable& a, const Variable& b, AddOptions options = {},
               Where where = Where::current());
/// Returns beta input + alpha a b, for a matrix [m, k] and a vector [k].
Variable addmv(const Variable& input, const Variable& a, const Variable& b, AddOptions options = {},
               Where where = Where::current());
/// Returns beta input + alpha times the outer product of vectors [m] and [n].
Variable addr(const Variable& input, const Variable& a, const Variable& b, AddOptions options = {},
              Where where = Where::current());
/// Returns beta input + alpha a b, for batches of matrices [b, m, k] and [b, k, n].
Variable baddbmm(const Variable& input, const Variable& a, const Variable& b,
                 AddOptions options = {}, Where where = Where::current());

/// Returns beta input + alpha times the sum over the batch of a[i] b[i].
Variable addbmm(const Variable& input, const Variable& a, const Variable& b,
                AddOptions options = {}, Where where = Where::current());

// Overloads with PyTorch's order of arguments: addmm(input, a, b, beta, alpha).
template <typename N>
concept Factor = std::is_arithmetic_v<N>;
template <Factor N>
Variable addmm(const Variable& input, const Variable& a, const Variable& b, N beta,
               Number alpha = 1, Where where = Where::current()) {
  return addmm(input, a, b, AddOptions{beta, alpha}, where);
}
template <Factor N>
Variable addmv(const Variable& input, const Variable& a, const Variable& b, N beta,
               Number alpha = 1, Where where = Where::current()) {
  return addmv(input, a, b, AddOptions{beta, alpha}, where);
}
template <Factor N>
Variable addr(const Variable& input, const Variable& a, const Variable& b, N beta, Number alpha = 1,
              Where where = Where::current()) {
  return addr(input, a, b, AddOptions{beta, alpha}, where);
}
template <Factor N>
Variable baddbmm(const Variable& input, const Variable& a, const Variable& b, N beta,
                 Number alpha = 1, Where where = Where::current()) {
  return baddbmm(input, a, b, AddOptions{beta, alpha}, where);
}
template <Factor N>
Variable addbmm(const Variable& input, const Variable& a, const Variable& b, N beta,
                Number alpha = 1, Where where = Where::current()) {
  return addbmm(input, a, b, AddOptions{beta, alpha}, where);
}

/// Returns the product of a matrix [m, n] and a vector [n].
Variable mv(const Variable& a, const Variable& b, Where where = Where::current());
/// Sums over the last dimensions of a and b. Returns the elementwise product if one of them has
/// rank 0.
Variable inner(const Variable& a, const Variable& b, Where where = Where::current());

/// Returns y[b, o] = x1[b, :] weight[o, :, :] x2[b, :] + bias[o].
Variable bilinear(const Variable& x1, const Variable& x2, const Variable& weight,
                  const Variable& bias = {}, Where where = Where::current());

}  // namespace tapegrad
