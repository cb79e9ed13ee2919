// Ops that copy elements to other places: joining, repeating, padding, writing in place.
#pragma once

#include <string_view>
#include <vector>

#include "core/tape/variable.h"

namespace tapegrad {

/// Concatenate along an existing dimension (cat) or a new one (stack). Dtypes are promoted.
Variable cat(VariableList inputs, int dim = 0, Where where = Where::current());
Variable stack(VariableList inputs, int dim = 0, Where where = Where::current());

/// Reverses the order along dims. Returns a copy.
Variable flip(const Variable& x, const Dims& dims, Where where = Where::current());
/// Rotates by 90 degrees k times, from the first of two dimensions towards the second.
Variable rot90(const Variable& x, int64_t k = 1, const Dims& dims = {0, 1},
               Where where = Where::current());
/// Shifts along dims; elements shifted beyond the end reappear at the beginning. Without dims,
/// shifts the elements in row-major order.
Variable roll(const Variable& x, const Dims& shifts, const Dims& dims = {},
              Where where = Where::current());
/// Pads x with `value`. amounts are {before, after} of the last dimension, then of the one before
/// it, and so on, as in torch.nn.functional.pad. Negative amounts crop.
Variable pad(const Variable& x, const std::vector<int64_t>& amounts, double value = 0.0,
             Where where = Where::current());
/// Concatenates copies of x along each dimension, as many as the given number; extra numbers add
/// leading dimensions.
Variable repeat(const Variable& x, const Dims& times, Where where = Where::current());
/// Repeats like NumPy's tile. Equivalent to repeat(), except that missing leading numbers are 1.
Variable tile(const Variable& x, const Dims& times, Where where = Where::current());
/// Repeats each entry along dim the given number of times.
Variable repeat_interleave(const Variable& x, int64_t times, int dim,
                           Where where = Where::current());
/// Repeats each element of x in row-major order; returns a vector.
Variable repeat_interleave(const Variable& x, int64_t times, Where where = Where::current());
/// Repeats entry i along dim times[i] times; times is a vector of integers, or one number.
Variable repeat_interleave(const Variable& x, const Variable& times, int dim,
                           Where where = Where::current());
/// Repeats element i of x, in row-major order, times[i] times; returns a vector.
Variable repeat_interleave(const Variable& x, const Variable& times,
                           Where where = Where::current());

/// Returns coordinate grids: vectors of n, m, ... elements give tensors [n, m, ...], each varying
/// along its own dimension. Returns views. With indexing "xy", the first two dimensions are
/// exchanged: [m, n, ...].
std::vector<Variable> meshgrid(VariableList inputs, std::string_view indexing = "ij",
                               Where where = Where::current());

/// Overload for `auto [ys, xs] = meshgrid(y, x, "ij");`.
std::array<Variable, 2> meshgrid(const Variable& a, const Variable& b,
                                 std::string_view indexing = "ij", Where where = Where::current());
std::array<Variable, 3> meshgrid(const Variable& a, const Variable& b, const Variable& c,
                                 std::string_view indexing = "ij", Where where = Where::current());

/// Copies x, which broadcasts to y's shape, into y, with conversion to y's dtype.
Variable& copy_(Variable& y, const Variable& x, Where where = Where::current());
/// Sets all elements of y. Throws DTypeError for a number with a fraction if y has an integer
/// dtype.
Variable& fill_(Variable& y, Number value, Where where = Where::current());
Variable& zero_(Variable& y, Where where = Where::current());

}  // namespace tapegrad
