// Checks and reductions shared by losses.
#pragma once

#include <string_view>

#include "ops/catalog.h"
#include "ops/loss.h"

namespace tapegrad::detail {

/// Throws ShapeError unless x and target have the same shape.
void check_equal_shapes(std::string_view op, const Variable& x, const Variable& target);
/// Throws DTypeError unless x is a float tensor.
void check_floats(std::string_view op, const Variable& x);

/// Returns the mean or sum of the losses, or the losses themselves.
Variable reduced(const Variable& losses, Reduction reduction, Where where = Where::current());

/// Reads the attribute `reduction`.
Reduction reduction_of(const Arguments& arguments);

}  // namespace tapegrad::detail
