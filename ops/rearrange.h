// Ops that copy elements to other places: joining, repeating, padding, writing in place.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/tape/variable.h"

namespace tapegrad {

/// Joined along an existing, or along a new dimension. Dtypes are promoted.
Variable cat(std::span<const Variable> inputs, int dim = 0, Where where = Where::current());
Variable stack(std::span<const Variable> inputs, int dim = 0, Where where = Where::current());
inline Variable cat(std::initializer_list<Variable> inputs, int dim = 0,
                    Where where = Where::current()) {
  return cat(std::span<const Variable>(inputs.begin(), inputs.size()), dim, where);
}
inline Variable stack(std::initializer_list<Variable> inputs, int dim = 0,
                      Where where = Where::current()) {
  return stack(std::span<const Variable>(inputs.begin(), inputs.size()), dim, where);
}

/// Reversed along the dimensions; a copy.
Variable flip(const Variable& x, const Dims& dims, Where where = Where::current());
/// Turned k times by 90 degrees, from the first of two dimensions towards the second.
Variable rot90(const Variable& x, int64_t k = 1, const Dims& dims = {0, 1},
               Where where = Where::current());
/// Shifted along the dimensions; what falls off comes in at the other end.
Variable roll(const Variable& x, const Dims& shifts, const Dims& dims,
              Where where = Where::current());
/// `value` around x: before and after of the last dimension, then of the one before it, and so on,
/// as PyTorch's constant pad. A negative amount cuts off.
Variable pad(const Variable& x, const std::vector<int64_t>& amounts, double value = 0.0,
             Where where = Where::current());
/// x laid side by side this many times along each dimension (new ones in front).
Variable repeat(const Variable& x, const Dims& times, Where where = Where::current());
/// NumPy's tile: as repeat, but fewer numbers than dimensions are completed by ones in front.
Variable tile(const Variable& x, const Dims& times, Where where = Where::current());
/// Each entry along dim this many times in a row.
Variable repeat_interleave(const Variable& x, int64_t times, int dim,
                           Where where = Where::current());

/// For vectors of n, m, ... elements tensors [n, m, ...] of each one's along its own dimension;
/// views. With NumPy's indexing "xy" the first two dimensions are exchanged: [m, n, ...].
std::vector<Variable> meshgrid(std::span<const Variable> inputs, std::string_view indexing = "ij",
                               Where where = Where::current());

/// Written into y, which x broadcasts to; converts.
Variable& copy_(Variable& y, const Variable& x, Where where = Where::current());
/// A fraction does not go into integers: DTypeError.
Variable& fill_(Variable& y, Number value, Where where = Where::current());
Variable& zero_(Variable& y, Where where = Where::current());

}  // namespace tapegrad
