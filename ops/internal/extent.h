// The shapes of a reduction; what reduction ops share.
#pragma once

#include <string_view>

#include "ops/catalog.h"

namespace tapegrad::detail {

struct Extent {
  Shape from;         // of x
  Shape kept;         // of x's rank, with size 1 where x is reduced
  Shape to;           // of the result
  int64_t count = 1;  // elements that meet in one

  /// Over the dimensions named, or over all when none is. IndexError for one out of range,
  /// ArgumentError for one named twice.
  Extent(std::string_view op, const Shape& shape, const Dims& dims, bool keepdim);

  /// A result of the kernels' form, seen with the shape wanted.
  Tensor finish(const Tensor& y) const;
  /// A value for each output, with size 1 where x is reduced.
  Variable keep(const Variable& y) const;
  /// The same, repeated to x's shape.
  Variable spread(const Variable& y) const;
};

/// x as a contiguous tensor [outer, n, inner] around dimension dim.
Tensor around(const Tensor& x, int dim);

/// DTypeError for integers and bool.
void require_float(std::string_view op, const Tensor& x);

/// ArgumentError when nothing would meet: an extreme has no neutral element.
void require_elements(std::string_view op, const Extent& extent);

void catalog_extremes(Catalog& catalog);  // of ops/extremes.cpp; reduce.cpp calls it

}  // namespace tapegrad::detail
