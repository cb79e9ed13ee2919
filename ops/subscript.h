// x[...] as in NumPy and PyTorch.
//
//   at(x, {0})                              x[0]
//   at(x, {Slice{1, {}, 2}, ellipsis, -1})  x[1::2, ..., -1]
//   at(x, {newaxis, Slice{}})               x[None, :]
//   at(x, {mask})                           x[mask], a vector for a mask of x's shape
//   at(x, {rows, columns})                  x[rows, columns] of index tensors, which broadcast
//
// Numbers, slices, ellipsis and newaxis give views. Masks and index tensors pick elements: their
// broadcast shape stands in place of the dimensions they index where these are neighbours, else in
// front. A mask counts for as many dimensions as it has. Negative indices count from the end;
// IndexError for one outside.
#pragma once

#include <concepts>
#include <optional>
#include <variant>
#include <vector>

#include "ops/binary.h"

namespace tapegrad {

/// start, start + step, ... before stop, as Python's; step is at least 1.
struct Slice {
  std::optional<int64_t> start = {}, stop = {};
  int64_t step = 1;
};
/// As many whole dimensions as are left over.
struct Ellipsis {};
inline constexpr Ellipsis ellipsis;
/// A new dimension of size 1.
struct NewAxis {};
inline constexpr NewAxis newaxis;

class Subscript {
 public:
  template <std::integral T>
  requires(!std::same_as<T, bool>) Subscript(T index) : value_(int64_t(index)) {}
  Subscript(Slice slice) : value_(slice) {}
  Subscript(Ellipsis) : value_(Ellipsis{}) {}
  Subscript(NewAxis) : value_(NewAxis{}) {}
  Subscript(const Variable& mask_or_index) : value_(mask_or_index) {}

  template <typename T>
  const T* get() const {
    return std::get_if<T>(&value_);
  }

 private:
  std::variant<int64_t, Slice, Ellipsis, NewAxis, Variable> value_;
};
using Subscripts = std::vector<Subscript>;

Variable at(const Variable& x, const Subscripts& subscripts, Where where = Where::current());

/// x with x[subscripts] = values, which broadcast, or += values with accumulate. Where one element
/// is named several times the last value stays, or all are added.
Variable index_put(const Variable& x, const Subscripts& subscripts, const Operand& values,
                   bool accumulate = false);
/// Written into x.
Variable& index_put_(Variable& x, const Subscripts& subscripts, const Operand& values,
                     bool accumulate = false);

}  // namespace tapegrad
