// Checks and reductions shared by losses.
#pragma once

#include <string_view>

#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/internal/operands.h"
#include "ops/loss.h"

namespace tapegrad::detail {

/// Throws ShapeError unless x and target have the same shape.
void check_equal_shapes(std::string_view op, const Variable& x, const Variable& target);

/// Returns the dimension of the classes: 1, or 0 for a single example.
inline int class_dim(const Shape& shape) { return shape.rank() == 1 ? 0 : 1; }
/// Returns a contiguous input as [examples, pixels, classes], with the strides of its own layout.
Tensor as_pixels(const Tensor& x);

/// Returns the mean or sum of the losses, or the losses themselves.
Variable reduced(const Variable& losses, Reduction reduction, Where where = Where::current());

/// Reads the attribute `reduction`.
Reduction reduction_of(const Arguments& arguments);

// Operators that take the caller's location.
inline Variable minus(const Variable& a, const Variable& b, Where w) { return sub({a, w}, {b, w}); }
inline Variable times(const Variable& a, const Variable& b, Where w) { return mul({a, w}, {b, w}); }
inline Variable times(double a, const Variable& b, Where w) { return mul({a, w}, {b, w}); }

void catalog_class_loss(Catalog& catalog);  // defined in ops/class_loss.cpp

}  // namespace tapegrad::detail
