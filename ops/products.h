// Products of tensors beyond matmul.
#pragma once

#include <optional>
#include <string_view>

#include "core/tape/variable.h"

namespace tapegrad {

/// The cross product of vectors of 3 along dim, which broadcast; without dim along the first
/// dimension of size 3.
Variable cross(const Variable& a, const Variable& b, std::optional<int> dim = {},
               Where where = Where::current());
/// Every element of a times all of b: [m, n] and [p, q] -> [m p, n q]; missing dimensions in front
/// count as 1.
Variable kron(const Variable& a, const Variable& b, Where where = Where::current());

/// Sums over the last `dims` dimensions of a with the first of b; or over the listed ones in pairs.
/// What is left of a comes first.
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

// beta input + alpha times a product, which input broadcasts to. With beta = 0 input is not read: a
// NaN in it does not matter.

struct AddOptions {
  double beta = 1.0;
  double alpha = 1.0;
};
/// [m, k] [k, n]
Variable addmm(const Variable& input, const Variable& a, const Variable& b, AddOptions options = {},
               Where where = Where::current());
/// [m, k] [k]
Variable addmv(const Variable& input, const Variable& a, const Variable& b, AddOptions options = {},
               Where where = Where::current());
/// The outer product of [m] and [n].
Variable addr(const Variable& input, const Variable& a, const Variable& b, AddOptions options = {},
              Where where = Where::current());
/// [b, m, k] [b, k, n]
Variable baddbmm(const Variable& input, const Variable& a, const Variable& b,
                 AddOptions options = {}, Where where = Where::current());

}  // namespace tapegrad
