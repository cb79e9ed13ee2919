// Sums of products of tensors, named by letters.
#pragma once

#include <span>
#include <string_view>

#include "core/tape/variable.h"

namespace tapegrad {

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

}  // namespace tapegrad
