// Loops of indexing kernels. Indices are contiguous, int64 and already checked.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "backends/cpu/tools/share.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cpu {

inline constexpr int64_t kParallelAbove = 1 << 15;  // elements
inline constexpr int64_t kColumns = 256;            // columns per task

/// An unsigned integer of the given size: values that are only moved keep their bits.
template <size_t kBytes>
using Word = std::conditional_t<
    kBytes == 1, uint8_t,
    std::conditional_t<kBytes == 2, uint16_t, std::conditional_t<kBytes == 4, uint32_t, uint64_t>>>;

/// Returns the offsets of all elements in dimensions [begin, end) of a layout, in row-major order.
inline std::vector<int64_t> offsets_of(const StridedLayout& layout, int begin, int end) {
  std::vector<int64_t> offsets{0};
  for (int dim = begin; dim < end; ++dim) {
    std::vector<int64_t> finer;
    finer.reserve(offsets.size() * size_t(layout.shape[dim]));
    for (int64_t offset : offsets)
      for (int64_t i = 0; i < layout.shape[dim]; ++i)
        finer.push_back(offset + i * layout.strides[dim]);
    offsets = std::move(finer);
  }
  return offsets;
}

/// The sources of each destination row, in their order, by a counting sort.
struct SourcesByRow {
  std::vector<int64_t> rows;   // the rows that have sources
  std::vector<int64_t> order;  // the sources, grouped by row

  /// Each source belongs to `times` successive entries of `which`.
  SourcesByRow(const int64_t* which, int64_t count, int64_t size, int64_t times = 1)
      : order(size_t(count), 0), ends_(size_t(size) + 1, 0) {
    for (int64_t i = 0; i < count; ++i) ++ends_[size_t(which[i]) + 1];
    for (int64_t row = 0; row < size; ++row) {
      if (ends_[size_t(row) + 1] > 0) rows.push_back(row);
      ends_[size_t(row) + 1] += ends_[size_t(row)];
    }
    // Filling advances the start of each row to its end.
    for (int64_t i = 0, source = 0; i < count; ++source)
      for (const int64_t end = i + times; i < end; ++i)
        order[size_t(ends_[size_t(which[i])]++)] = source;
  }
  /// Returns the places in `order` of the sources of a row.
  int64_t begin(int64_t row) const { return row > 0 ? ends_[size_t(row) - 1] : 0; }
  int64_t end(int64_t row) const { return ends_[size_t(row)]; }

 private:
  std::vector<int64_t> ends_;
};

/// Returns the offsets in a contiguous index of the dimensions [begin, end) of x. The index may
/// have size 1 where x has another size.
inline std::vector<int64_t> offsets_in_index(const Tensor& index, const Tensor& x, int begin,
                                             int end) {
  StridedLayout layout{x.shape(), index.strides(), 0};
  for (int i = begin; i < end; ++i)
    if (index.shape()[i] == 1) layout.strides[i] = 0;
  return offsets_of(layout, begin, end);
}

/// Whether an index may have size 1 in dimensions other than dim in which x has another size: it
/// then repeats its values along them.
enum class Repeats { kNo, kYes };

/// Calls visit(p, q) for every element of a contiguous index: p is the position in the index, q the
/// offset of the element of x that it refers to. One thread visits, in order, the elements that
/// differ only along dim.
template <Repeats repeats = Repeats::kNo, typename Visit>
void for_each_meant(const Tensor& x, const Tensor& index, int dim, Visit visit) {
  const int64_t* which = index.data<int64_t>();
  const int64_t length = index.shape()[dim], step = x.strides()[dim];
  const std::vector<int64_t> outer = offsets_of(x.layout(), 0, dim);
  const std::vector<int64_t> inner = offsets_of(x.layout(), dim + 1, x.rank());
  const int64_t width = int64_t(inner.size()), count = int64_t(outer.size()) * length * width;
  constexpr bool kRepeats = repeats == Repeats::kYes;
  const bool is_parallel = count > kParallelAbove, is_whole = !kRepeats || index.numel() == count;
  std::vector<int64_t> lines, columns;  // of an index that repeats values
  if (!is_whole) {
    lines = offsets_in_index(index, x, 0, dim);
    columns = offsets_in_index(index, x, dim + 1, x.rank());
  }
  const auto line_of = [&](int64_t o) {
    return which + (is_whole ? o * length * width : lines[size_t(o)]);
  };
  if (width == 1) {  // along the last dimension
    share_tasks(int64_t(outer.size()), is_parallel, [&](int64_t o) {
      const int64_t* const line = line_of(o);
      for (int64_t j = 0, p = o * length; j < length; ++j, ++p)
        visit(p, outer[size_t(o)] + line[j] * step);
    });
    return;
  }
  [[maybe_unused]] bool has_rows = false;  // rows of x are dense and share a value of the index
  if constexpr (kRepeats) {
    int64_t dense = 0;
    while (dense < width && inner[size_t(dense)] == dense) ++dense;
    has_rows = dense == width && std::ranges::count(columns, 0) == width;
  }
  const int64_t pitch = index.strides()[dim];
  const int64_t blocks = (width + kColumns - 1) / kColumns;
  const int64_t tasks = int64_t(outer.size()) * blocks;
  share_tasks(tasks, is_parallel, [&](int64_t task) {
    const int64_t o = task / blocks, begin = task % blocks * kColumns;
    const int64_t end = std::min(width, begin + kColumns);
    for (int64_t j = 0; j < length; ++j) {
      const int64_t p = (o * length + j) * width;
      const int64_t* const line = line_of(o) + j * pitch;
      if constexpr (kRepeats) {
        if (has_rows) {
          const int64_t q = outer[size_t(o)] + *line * step;
          for (int64_t i = begin; i < end; ++i) visit(p + i, q + i);
          continue;
        }
        if (!is_whole) {
          for (int64_t i = begin; i < end; ++i)
            visit(p + i, outer[size_t(o)] + line[columns[size_t(i)]] * step + inner[size_t(i)]);
          continue;
        }
      }
      for (int64_t i = begin; i < end; ++i)
        visit(p + i, outer[size_t(o)] + line[i] * step + inner[size_t(i)]);
    }
  });
}

}  // namespace tapegrad::backends::cpu
