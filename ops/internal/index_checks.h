// What ops that take indices share: their checks.
#pragma once

#include <string_view>

#include "core/tape/variable.h"

namespace tapegrad::detail {

/// The indices as contiguous int64. DTypeError unless they are int32 or int64.
Tensor as_index(std::string_view op, const Tensor& index);

/// IndexError, naming the first one, unless all are in [0, size).
void check_index(std::string_view op, const Tensor& index, int64_t size);

/// The indices as int64 with negative ones counted from the end. IndexError, naming the first one,
/// unless all are in [-size, size).
auto wrapped(std::string_view op, const Variable& index, int64_t size) -> Variable;

/// ShapeError unless the index fits in a shape in every dimension but dim (in all for -1).
void check_fits(std::string_view op, const Tensor& index, const Shape& shape, int dim,
                const char* what);

/// The corner of x that the index covers: x's own size along dim (of all dims if dim < 0, the
/// index's).
Tensor corner(const Tensor& x, const Shape& index, int dim);

}  // namespace tapegrad::detail
