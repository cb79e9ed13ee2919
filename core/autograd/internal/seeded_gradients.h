// Gradients of several results with a seed each, for derivatives of functions and their check.
#pragma once

#include <string_view>
#include <vector>

#include "core/tape/variable.h"

namespace tapegrad::detail {

/// Returns the gradients with respect to xs of the sum of <seeds, ys>; zeros for an x that no y
/// depends on. If `strict`, throws AutogradError instead, whose message begins with `op`.
std::vector<Variable> seeded_gradients(std::string_view op, const std::vector<Variable>& ys,
                                       const std::vector<Variable>& seeds,
                                       const std::vector<Variable>& xs, GradOptions options,
                                       bool strict = false);

}  // namespace tapegrad::detail
