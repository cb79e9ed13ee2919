// Subscripts x[...] as in NumPy and PyTorch.
//
//   at(x, {0})                              x[0]
//   at(x, {Slice{1, {}, 2}, ellipsis, -1})  x[1::2, ..., -1]
//   at(x, {None, Slice()})                  x[None, :]
//   at(x, {mask})                           x[mask], a vector for a mask of x's shape
//   at(x, {rows, columns})                  x[rows, columns] with index tensors, which broadcast
//
// Integers, slices, ellipsis and newaxis give views, and so does an index tensor without
// dimensions, whose value the host reads. Masks and other index tensors copy elements; their
// broadcast shape replaces the dimensions that they index if these are adjacent, otherwise it comes
// first. A mask indexes as many dimensions as its rank. Negative indices count from the end.
//
// Throws IndexError for an index out of range.
#pragma once

#include <concepts>
#include <optional>
#include <vector>

#include "ops/binary.h"

namespace tapegrad {

/// Elements start, start + step, ... up to but excluding stop, as in Python; step >= 1. Slice(1,
/// None) has no stop.
struct Slice {
  std::optional<int64_t> start = {}, stop = {};
  int64_t step = 1;
};
/// All dimensions that the other subscripts do not index. "..." has the same meaning.
struct OtherDims {};
inline constexpr OtherDims ellipsis, Ellipsis;
/// Inserts a dimension of size 1. As a bound of a Slice, means the end of the dimension; as an
/// option, no number: {.momentum = None}.
struct NewAxis {
  constexpr operator std::optional<int64_t>() const { return {}; }
  constexpr operator std::optional<double>() const { return {}; }
};
inline constexpr NewAxis newaxis, None;

/// libtorch's namespace for the operands of brackets.
namespace indexing {
using tapegrad::ellipsis, tapegrad::Ellipsis, tapegrad::None, tapegrad::Slice;
}

/// One entry between the brackets. Not a std::variant, which would cost every user compile time.
class Subscript {
 public:
  enum class Kind { kIndex, kSlice, kEllipsis, kNewAxis, kTensor };

  template <std::integral T>
  requires(!std::same_as<T, bool>) Subscript(T index)
      : kind_(Kind::kIndex), index_(detail::index_of(index)) {}
  Subscript(Slice slice) : kind_(Kind::kSlice), slice_(slice) {}
  Subscript(OtherDims) : kind_(Kind::kEllipsis) {}
  Subscript(const char* dots);  // "..."; throws ArgumentError for any other text
  Subscript(NewAxis) : kind_(Kind::kNewAxis) {}
  Subscript(const Variable& mask_or_index) : kind_(Kind::kTensor), tensor_(mask_or_index) {}
  Subscript(const std::vector<int64_t>& indices);

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

/// Returns x with x[subscripts] = values (values broadcast), or += values if `accumulate`. If an
/// element is indexed several times, the last value remains, or all values are added.
Variable index_put(const Variable& x, const Subscripts& subscripts, const Operand& values,
                   bool accumulate = false);
/// In-place variant of index_put.
Variable& index_put_(Variable& x, const Subscripts& subscripts, const Operand& values,
                     bool accumulate = false);

}  // namespace tapegrad
