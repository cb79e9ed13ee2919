// Checks shared by ops that take indices.
#pragma once

#include <string_view>

#include "core/tape/variable.h"

namespace tapegrad::detail {

/// Converts indices to contiguous int64. Throws DTypeError unless they are int32 or int64.
Tensor as_index(std::string_view op, const Tensor& index);

/// Throws IndexError, naming the first invalid index, unless all indices are in [0, size).
void check_index(std::string_view op, const Tensor& index, int64_t size, bool wraps = false);

/// Converts indices to int64 and adds size to negative ones. Throws IndexError, naming the first
/// invalid index, unless all indices are in [-size, size).
auto wrapped(std::string_view op, const Variable& index, int64_t size) -> Variable;

/// Returns values that are assigned to a part of a tensor without their leading sizes of 1, as
/// PyTorch does: x[0] = y of shape [1, 4] sets a row of 4 elements.
Variable without_leading_ones(const Variable& values, Where where);

/// Throws ShapeError unless index's sizes are at most those of shape, in every dimension except dim
/// (-1: in all dimensions).
void check_fits(std::string_view op, const Tensor& index, const Shape& shape, int dim,
                const char* what);

/// If the index repeats one vector along dim, as after expand(), returns the vector, with size 1 in
/// the other dimensions; else an empty tensor.
Tensor repeated_vector(const Tensor& index, int dim);

/// Returns the index with size 1 in the dimensions other than dim along which it repeats its
/// values, as after expand(). The kernels gather and scatter_add of devices with index_copy take
/// it.
Tensor unrepeated(const Tensor& index, int dim);

/// Returns the elements as a contiguous tensor of one dimension.
Tensor as_vector(const Tensor& x);

/// Returns a view of the part of x that the index covers: index's sizes, except for x's own size
/// along dim (dim < 0: index's sizes in all dimensions).
Tensor corner(const Tensor& x, const Shape& index, int dim);

}  // namespace tapegrad::detail
