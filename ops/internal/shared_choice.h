// The gradient of a value that was chosen from all elements of a tensor.
#pragma once

#include <tuple>

#include "core/tape/op.h"
#include "ops/binary.h"
#include "ops/reduce.h"
#include "ops/unary.h"

namespace tapegrad::detail {

/// Returns `chosen`, an element of x. All elements equal to it share its gradient, as in PyTorch;
/// if it is NaN, all NaNs share the gradient.
struct SharedChoice {
  static constexpr std::string_view kName = "median";
  Tensor chosen;
  SavedInput<0> x{};
  SavedOutput<> y{};
  auto saved() { return std::tie(x, y); }

  Tensor forward(const Tensor&) const { return chosen; }
  Variable backward(const Variable& dy) const {
    const Variable x = this->x(), y = this->y();
    const Variable equal = logical_or(eq(x, y), logical_and(isnan(x), isnan(y))).to(x.dtype());
    return equal * (dy / sum(equal));
  }
};

}  // namespace tapegrad::detail
