// Sums of products of tensors, named by letters.
#pragma once

#include <string_view>

#include "ops/rearrange.h"

namespace tapegrad {

/// Computes a sum in Einstein notation: "ij,jk->ik" is a matrix product.
///
///   einsum("bij,bjk->bik", {a, b});   // batched product
///   einsum("ii->i", {a});             // diagonal; without ->i the trace
///   einsum("...ij,...jk", {a, b});    // any leading dimensions, which broadcast
///
/// Letters that are missing on the right are summed over. Without ->, the result has the dimensions
/// of ..., followed by the letters that occur once, in alphabetical order. Sizes of one letter must
/// be equal or 1. Operands are contracted two at a time as batched matrix products, in the order
/// with the fewest multiplications (for more than six operands greedily, the cheapest pair first).
Variable einsum(std::string_view equation, VariableList operands, Where where = Where::current());
/// Overload with operands as arguments: einsum("ij,jk->ik", a, b).
template <std::derived_from<Variable>... V>
Variable einsum(std::string_view equation, const Variable& first, const V&... others) {
  return einsum(equation, VariableList{first, others...});
}

}  // namespace tapegrad
