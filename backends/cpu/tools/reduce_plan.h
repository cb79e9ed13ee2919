// Loops of a reduction. The dimensions of x are kept or reduced; each kind is merged into as few
// loops as its strides allow. There are two loop orders:
//
//   rows     The innermost loop is reduced: every output reduces rows of memory.
//   columns  The innermost loop is kept: a row of outputs is updated by successive rows of x.
#pragma once

#include <array>
#include <cstdint>

#include "core/base/tensor.h"

namespace tapegrad::backends::cpu {

/// One loop: its number of iterations, and the steps between its elements in x and in y.
struct Axis {
  int64_t size, step, out_step;
};

/// Nested loops, the outermost first.
struct Nest {
  int rank = 0;
  std::array<Axis, kMaxRank + 1> axes;

  void push(Axis axis) { axes[rank++] = axis; }
  Axis pop() { return axes[--rank]; }
  const Axis& inner() const { return axes[rank - 1]; }
  int64_t count() const {
    int64_t count = 1;
    for (int i = 0; i < rank; ++i) count *= axes[i].size;
    return count;
  }
  /// Offsets in x and y, in elements.
  struct Offsets {
    int64_t in = 0, out = 0;
  };
  /// Returns the offsets of an iteration of all loops; 0 <= index < count().
  Offsets at(int64_t index) const {
    Offsets offsets;
    for (int i = rank - 1; i >= 0; --i) {
      const int64_t here = i > 0 ? index % axes[i].size : index;
      offsets.in += here * axes[i].step;
      offsets.out += here * axes[i].out_step;
      if (i > 0) index /= axes[i].size;
    }
    return offsets;
  }
  /// The offsets of successive indices, without divisions.
  class Walk {
   public:
    Walk(const Nest& nest, int64_t first) : nest_(nest), at_(nest.at(first)) {
      for (int i = nest.rank - 1; i > 0; first /= nest.axes[i].size, --i)
        index_[i] = first % nest.axes[i].size;
    }
    const Offsets& at() const { return at_; }
    void next() {
      for (int i = nest_.rank - 1; i >= 0; --i) {
        const Axis& axis = nest_.axes[i];
        at_.in += axis.step, at_.out += axis.out_step;
        if (i == 0 || ++index_[i] < axis.size) return;
        at_.in -= axis.size * axis.step, at_.out -= axis.size * axis.out_step;
        index_[i] = 0;
      }
    }

   private:
    const Nest& nest_;
    Offsets at_;
    std::array<int64_t, kMaxRank + 1> index_;  // of the inner loops; index_[0] is not used
  };
};

struct ReductionPlan {
  Nest kept, reduced;   // without loops of size 1, unless there is no other
  int64_t repeats = 1;  // how often each element counts: reduced dimensions of stride 0
  bool by_columns = false;
};

/// Returns the loops that reduce x to y. y has x's rank, with size 1 where x is reduced. Neither is
/// empty.
ReductionPlan plan_reduction(const Tensor& x, const Tensor& y);

/// Rows of fewer elements may be reduced along columns.
inline constexpr int64_t kFewestColumns = 32;

/// Returns the number of rows of a contiguous x that is reduced along its last dimensions only; 0
/// for other operands. y has x's rank, with size 1 where x is reduced.
inline int64_t contiguous_rows(const Tensor& x, const Tensor& y) {
  if (y.numel() == 0 || !x.is_contiguous() || !y.is_contiguous()) return 0;
  int64_t leading = 1;
  for (int i = 0; i < x.rank() && leading < y.numel(); ++i) {
    if (x.shape()[i] != y.shape()[i]) return 0;
    leading *= y.shape()[i];
  }
  return leading;
}
/// Returns contiguous_rows() if the rows are not short; 0 for other operands.
inline int64_t rows_reduced(const Tensor& x, const Tensor& y) {
  if (y.numel() == 0 || x.numel() / y.numel() < kFewestColumns) return 0;
  return contiguous_rows(x, y);
}

/// Returns the number of outer rows of a contiguous x [rows, reduced, inner] of at most kMiddle
/// elements each, inner > 1; 0 for other operands. The order in which a row is reduced along its
/// columns does not depend on the number of rows.
inline constexpr int64_t kMiddle = 8192;
inline int64_t middle_rows(const Tensor& x, const Tensor& y) {
  if (y.numel() == 0 || !x.is_contiguous() || !y.is_contiguous()) return 0;
  int first = 0, last = x.rank();  // the reduced dimensions
  const auto is_kept = [&](int i) { return x.shape()[i] == y.shape()[i]; };
  int64_t rows = 1, inner = 1;
  while (first < last && is_kept(first)) rows *= x.shape()[first++];
  while (last > first && is_kept(last - 1)) inner *= x.shape()[--last];
  for (int i = first; i < last; ++i)
    if (y.shape()[i] != 1) return 0;
  return inner > 1 && first < last && x.numel() / rows <= kMiddle ? rows : 0;
}

}  // namespace tapegrad::backends::cpu
