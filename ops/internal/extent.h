// Extent: the shapes of a reduction. Also helpers shared by reduction ops.
#pragma once

#include <string_view>

#include "ops/catalog.h"

namespace tapegrad::detail {

struct Extent {
  Shape from;         // the shape of x
  Shape kept;         // x's rank, with size 1 in reduced dimensions
  Shape to;           // the shape of the result
  int64_t count = 1;  // elements per result

  /// Reduces the given dimensions, or all if none is given. Throws IndexError for a dimension out
  /// of range, and ArgumentError for a dimension given twice.
  Extent(std::string_view op, const Shape& shape, const Dims& dims, bool keepdim);

  /// Converts a kernel's result, of shape `kept`, to shape `to`.
  Tensor finish(const Tensor& y) const;
  /// Reshapes y, of shape `to`, to shape `kept`.
  Variable keep(const Variable& y) const;
  /// Returns the shape [outer, count, inner] of a contiguous x whose reduced dimensions are
  /// adjacent; an empty shape for other tensors.
  Shape rows_of(const Tensor& x) const;
  /// Expands y, of shape `to`, to shape `from`.
  Variable spread(const Variable& y) const;
};

/// Returns x as a contiguous tensor [outer, n, inner] around dimension dim.
Tensor around(const Tensor& x, int dim);

/// Throws DTypeError for integers and bool.
void require_float(std::string_view op, const Tensor& x);

/// Throws ArgumentError if a result would have no elements to reduce: extremes have no neutral
/// element.
void require_elements(std::string_view op, const Extent& extent);

void catalog_extremes(Catalog& catalog);  // defined in ops/extremes.cpp, called by ops/reduce.cpp

}  // namespace tapegrad::detail
