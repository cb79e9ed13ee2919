// What losses share: their checks, and what becomes of the element losses.
#pragma once

#include <string_view>

#include "ops/catalog.h"
#include "ops/loss.h"

namespace tapegrad::detail {

/// ShapeError unless x and target have one shape.
void check_equal_shapes(std::string_view op, const Variable& x, const Variable& target);
/// DTypeError unless x is a float.
void check_floats(std::string_view op, const Variable& x);

/// The mean, the sum, or the losses themselves.
Variable reduced(const Variable& losses, Reduction reduction, Where where = Where::current());

/// The attribute `reduction`.
Reduction reduction_of(const Arguments& arguments);

}  // namespace tapegrad::detail
