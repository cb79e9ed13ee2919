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

/// One entry between the brackets. Not a std::variant, which is slow to compile for every user.
class Subscript {
 public:
  enum class Kind { kIndex, kSlice, kEllipsis, kNewAxis, kTensor };

  template <std::integral T>
  requires(!std::same_as<T, bool>) Subscript(T index) : kind_(Kind::kIndex), index_(index) {}
  Subscript(Slice slice) : kind_(Kind::kSlice), slice_(slice) {}
  Subscript(Ellipsis) : kind_(Kind::kEllipsis) {}
  Subscript(NewAxis) : kind_(Kind::kNewAxis) {}
  Subscript(const Variable& mask_or_index) : kind_(Kind::kTensor), tensor_(mask_or_index) {}

  Kind kind() const { return kind_; }
  int64_t index() const { return index_; }
  const Slice& slice() const { return slice_; }
  const Variable& tensor() const { return tensor_; }

 private:
  Kind kind_;
  int64_t index_ = 0;
  Slice slice_;
  Variable tensor_;
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
