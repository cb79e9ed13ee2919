// Casts of operands for the ops that Autocast covers. A composed op, or an op of several operands,
// begins with:
//
//   Variable linear(const Variable& x, const Variable& weight, const Variable& bias, Where where) {
//     if (is_autocast_enabled()) [[unlikely]]
//       return in_low_precision([](const auto&... a) { return linear(a...); }, where, x, weight,
//                               bias);
//
// This calls the op again with cast operands and with autocast off. The lambda selects among the
// overloads of the op. An op that is a single node uses apply_wide() instead, which casts the
// operands of the node.
#pragma once

#include <array>
#include <utility>
#include <vector>

#include "core/tape/autocast.h"
#include "core/tape/op.h"

namespace tapegrad::detail {

/// Casts a float other than float64 to the scope's dtype. Returns any other x, also an empty one,
/// unchanged.
[[gnu::cold]] Variable low(const Variable& x, Where where);
[[gnu::cold]] std::vector<Variable> low(std::span<const Variable> xs, Where where);
/// Casts a sixteen-bit float to float32 in an Autocast scope. Returns any other x unchanged.
[[gnu::cold]] Variable wide(const Variable& x, Where where);
/// Casts all to their common promoted dtype.
[[gnu::cold]] std::vector<Variable> promoted(std::span<const Variable> xs, Where where);

/// Casts Variables and passes other arguments unchanged.
struct Low {
  Where where;
  Variable operator()(const Variable& x) const { return low(x, where); }
  std::vector<Variable> operator()(std::span<const Variable> xs) const { return low(xs, where); }
  template <typename T>
  requires(!std::same_as<T, Variable>) T& operator()(T& other) const { return other; }
};
struct Wide {
  Where where;
  Variable operator()(const Variable& x) const { return wide(x, where); }
  template <typename T>
  requires(!std::same_as<T, Variable>) T& operator()(T& other) const { return other; }
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

/// Calls op with operands of their common promoted dtype.
template <typename Op, std::same_as<Variable>... Operands>
auto in_common_dtype(Op op, Where where, const Operands&... operands) {
  const std::vector<Variable> xs = promoted(std::array{operands...}, where);
  return [&]<size_t... I>(std::index_sequence<I...>) {
    return without_autocast(op, where, xs[I]...);
  }
  (std::index_sequence_for<Operands...>());
}

/// apply() with sixteen-bit operands cast to float32 in an Autocast scope.
template <typename Op, std::same_as<Variable>... Inputs>
auto apply_wide(Op op, Where where, const Inputs&... inputs) {
  if (is_autocast_enabled()) [[unlikely]]
    return apply(std::move(op), where, wide(inputs, where)...);
  return apply(std::move(op), where, inputs...);
}

}  // namespace tapegrad::detail
