#include "core/base/shape.h"

#include <array>
#include <cstdlib>
#include <ostream>

#include "core/base/error.h"
#include "core/base/internal/shape_mismatch.h"

namespace tapegrad {

Dims::Dims(std::initializer_list<int64_t> values) : Dims() {
  for (int64_t value : values) push_back(value);
}

Dims::Dims(const std::vector<int64_t>& values) : Dims() {
  for (int64_t value : values) push_back(value);
}

Dims Dims::filled(int rank, int64_t value) {
  Dims dims;
  while (dims.rank_ < rank) dims.push_back(value);
  return dims;
}

void Dims::push_back(int64_t value) {
  if (rank_ == kMaxRank) fail<ShapeError>("shape: more than ", kMaxRank, " dimensions");
  values_[rank_++] = value;
}

std::ostream& operator<<(std::ostream& out, const Dims& dims) {
  out << '[';
  for (int i = 0; i < dims.rank(); ++i) out << (i > 0 ? ", " : "") << dims[i];
  return out << ']';
}

int64_t numel(const Shape& shape) {
  // The product of the nonzero sizes must fit, too, because strides are computed from it.
  int64_t count = 1;
  bool none = false;
  for (int64_t size : shape) {
    none |= size == 0;
    if (size < 0 || __builtin_mul_overflow(count, size == 0 ? 1 : size, &count))
      fail<ShapeError>("shape: negative or too many elements: ", shape);
  }
  return none ? 0 : count;
}

int64_t numel(const Shape& shape, int begin, int end) {
  int64_t count = 1;
  for (int i = begin; i < end; ++i) count *= shape[i];
  return count;
}

StridedLayout slice_layout(StridedLayout layout, int dim, int64_t start, int64_t size,
                           int64_t step) {
  if (size > 0) layout.offset += start * layout.strides[dim];
  if (size > 1) layout.strides[dim] *= step;
  layout.shape[dim] = size;
  return layout;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;
  uint64_t step = 1;  // wraps around for shapes without a tensor
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = int64_t(step);
    step *= uint64_t(shape[i]);
  }
  return strides;
}

StridedLayout contiguous_layout(const Shape& shape, int64_t offset) {
  return {shape, contiguous_strides(shape), offset};
}

bool is_contiguous(const StridedLayout& layout) {
  int64_t step = 1;
  for (int i = layout.shape.rank() - 1; i >= 0; --i) {
    if (layout.shape[i] != 1 && layout.strides[i] != step) return false;
    step *= layout.shape[i];
  }
  return true;
}

bool overlaps_itself(const StridedLayout& layout) {
  // In a layout made by slices and permutations, a step along a dimension passes everything that
  // smaller steps can reach. Insertion sort: there are at most eight steps, mostly in order.
  std::array<int, kMaxRank> by_step;
  int count = 0;
  for (int i = layout.shape.rank() - 1; i >= 0; --i) {
    if (layout.shape[i] == 0) return false;
    if (layout.shape[i] == 1) continue;
    int at = count++;
    for (; at > 0 && std::abs(layout.strides[by_step[at - 1]]) > std::abs(layout.strides[i]); --at)
      by_step[at] = by_step[at - 1];
    by_step[at] = i;
  }
  int64_t reach = 0;  // the reach of the previous steps
  for (int k = 0; k < count; ++k) {
    const int64_t step = std::abs(layout.strides[by_step[k]]);
    if (step <= reach) return true;
    reach += step * (layout.shape[by_step[k]] - 1);
  }
  return false;
}

Strides broadcast_strides(const StridedLayout& from, const Shape& to) {
  Strides strides = Dims::filled(to.rank(), 0);
  const int missing = to.rank() - from.shape.rank();
  for (int i = missing; i < to.rank(); ++i)
    if (from.shape[i - missing] != 1) strides[i] = from.strides[i - missing];
  return strides;
}

Shape broadcast(std::string_view op, const Shape& a, const Shape& b) {
  if (a == b) return a;
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  const int missing = longer.rank() - shorter.rank();
  Shape result = longer;
  for (int i = missing; i < longer.rank(); ++i) {
    const int64_t other = shorter[i - missing];
    if (result[i] == 1) result[i] = other;
    if (other != 1 && other != result[i])
      fail<ShapeError>(op, ": shapes do not broadcast: ", a, " and ", b,
                       draw_mismatch({{"", a, i - longer.rank() + a.rank()},
                                      {"", b, i - longer.rank() + b.rank()}}));
  }
  return result;
}

void Dims::check_rank(size_t wanted) const {
  if (rank_ != int(wanted)) fail<ShapeError>("sizes: ", wanted, " sizes wanted of a shape ", *this);
}

int normalize_dim(std::string_view op, int64_t dim, int rank) {
  if (dim < -int64_t(rank) || dim >= rank)
    fail<IndexError>(op, ": dim ", dim, " is outside a tensor of rank ", rank);
  return int(dim < 0 ? dim + rank : dim);
}

}  // namespace tapegrad
