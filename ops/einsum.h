// Sums of products of tensors, named by letters.
#pragma once

#include <concepts>
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
namespace detail {
/// An equation, and the line that calls einsum() with it.
struct EquationHere {
  template <std::convertible_to<std::string_view> Text>
  EquationHere(const Text& equation, Where here = Where::current()) : text(equation), where(here) {}
  std::string_view text;
  Where where;
};
}  // namespace detail
/// Overload with operands as arguments: einsum("ij,jk->ik", a, b).
template <std::derived_from<Variable>... V>
Variable einsum(detail::EquationHere equation, const Variable& first, const V&... others) {
  return einsum(equation.text, VariableList{first, others...}, equation.where);
}

}  // namespace tapegrad
