// For the ops that Autocast casts the operands of. One that consists of several, or of several
// operands, says so at its head, before anything else:
//
//   Variable linear(const Variable& x, const Variable& weight, const Variable& bias, Where where) {
//     if (is_autocast_enabled()) [[unlikely]]
//       return in_low_precision(linear, where, x, weight, bias);
//
// and then runs again with the operands cast and casting off. One that is a single node for the
// tape is run by apply_wide().
#pragma once

#include <vector>

#include "core/tape/autocast.h"
#include "core/tape/op.h"

namespace tapegrad::detail {

/// A float other than float64 in the scope's type; anything else, an empty variable too, as it is.
[[gnu::cold]] Variable low(const Variable& x, Where where);
[[gnu::cold]] std::vector<Variable> low(std::span<const Variable> xs, Where where);
/// In a scope, a sixteen-bit float as float32; anything else as it is.
[[gnu::cold]] Variable wide(const Variable& x, Where where);
/// All in the type that holds them all.
[[gnu::cold]] std::vector<Variable> promoted(std::span<const Variable> xs, Where where);

/// Casts what is a variable, and passes on what is not.
struct Low {
  Where where;
  Variable operator()(const Variable& x) const { return low(x, where); }
  std::vector<Variable> operator()(std::span<const Variable> xs) const { return low(xs, where); }
  template <typename T>
  T& operator()(T& other) const {
    return other;
  }
};
struct Wide {
  Where where;
  Variable operator()(const Variable& x) const { return wide(x, where); }
  template <typename T>
  T& operator()(T& other) const {
    return other;
  }
};

template <typename Op, typename... Operands>
auto without_autocast(Op op, Where where, Operands&&... operands) {
  const AutocastOff off;
  return op(operands..., where);
}
template <typename Op, typename... Args>
auto in_low_precision(Op op, Where where, Args&... args) {
  return without_autocast(op, where, Low{where}(args)...);
}
template <typename Op, typename... Args>
auto in_float32(Op op, Where where, Args&... args) {
  return without_autocast(op, where, Wide{where}(args)...);
}

/// apply(), in a scope with sixteen-bit operands as float32.
template <typename Op, std::same_as<Variable>... Inputs>
auto apply_wide(Op op, Where where, const Inputs&... inputs) {
  if (is_autocast_enabled()) [[unlikely]]
    return apply(std::move(op), where, wide(inputs, where)...);
  return apply(std::move(op), where, inputs...);
}

}  // namespace tapegrad::detail
