// Further tensor products: cross, kron, tensordot, einsum, and products with addition.
#pragma once

#include <optional>
#include <string_view>

#include "core/tape/variable.h"

namespace tapegrad {

/// The cross product of 3-vectors along dim (default: the first dimension of size 3). a and b
/// broadcast.
Variable cross(const Variable& a, const Variable& b, std::optional<int> dim = {},
               Where where = Where::current());
/// The Kronecker product: [m, n] and [p, q] give [m p, n q]. Missing leading dimensions count as
/// size 1.
Variable kron(const Variable& a, const Variable& b, Where where = Where::current());

/// Sums over the last `dims` dimensions of a and the first of b, or over the listed dimensions in
/// pairs. The result has the remaining dimensions of a, then those of b.
Variable tensordot(const Variable& a, const Variable& b, int dims = 2,
                   Where where = Where::current());
Variable tensordot(const Variable& a, const Variable& b, const Dims& dims_a, const Dims& dims_b,
                   Where where = Where::current());

/// Sums of products named by letters: "ij,jk->ik" is a matrix product.
///
///   einsum("bij,bjk->bik", {a, b});   // batches
///   einsum("ii->i", {a});             // the diagonal; without ->i the trace
///   einsum("...ij,...jk", {a, b});    // any dimensions in front, which broadcast
///
/// A letter that is missing on the right is summed over. Without -> the result has the letters that
/// occur once, in alphabetical order, behind what ... stands for. Sizes of one letter are equal
/// or 1. Operands are contracted two at a time as batched matrix products, in the order that costs
/// the fewest multiplications (for up to six operands, above that the cheapest pair first).
Variable einsum(std::string_view equation, std::span<const Variable> operands,
                Where where = Where::current());
inline Variable einsum(std::string_view equation, std::initializer_list<Variable> operands,
                       Where where = Where::current()) {
  return einsum(equation, std::span<const Variable>(operands.begin(), operands.size()), where);
}

// beta input + alpha times a product; input broadcasts to the product. With beta = 0, input is not
// read, so NaN in it has no effect.

struct AddOptions {
  double beta = 1.0;
  double alpha = 1.0;
};
/// beta input + alpha a b, for matrices [m, k] and [k, n].
Variable addmm(const Variable& input, const Variable& a, const Variable& b, AddOptions options = {},
               Where where = Where::current());
/// beta input + alpha a b, for a matrix [m, k] and a vector [k].
Variable addmv(const Variable& input, const Variable& a, const Variable& b, AddOptions options = {},
               Where where = Where::current());
/// beta input + alpha times the outer product of vectors [m] and [n].
Variable addr(const Variable& input, const Variable& a, const Variable& b, AddOptions options = {},
              Where where = Where::current());
/// beta input + alpha a b, for batches of matrices [b, m, k] and [b, k, n].
Variable baddbmm(const Variable& input, const Variable& a, const Variable& b,
                 AddOptions options = {}, Where where = Where::current());

}  // namespace tapegrad
