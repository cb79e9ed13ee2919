#include "backends/cpu/tools/pieces.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace tapegrad::backends::cpu {
namespace {

/// Calls visit(offset, step, length) for each run along the last dimension of a strided operand,
/// starting at a row-major position.
template <typename Visit>
void for_each_run(const int64_t* sizes, const int64_t* strides, int rank, int64_t start,
                  int64_t count, Visit visit) {
  if (rank == 0) return visit(int64_t(0), int64_t(0), count);
  const int last = rank - 1;
  std::array<int64_t, kMaxRank> index;
  int64_t offset = 0;
  for (int dim = last; dim >= 0; --dim) {
    index[dim] = start % sizes[dim];
    start /= sizes[dim];
    offset += index[dim] * strides[dim];
  }
  while (true) {
    const int64_t length = std::min(count, sizes[last] - index[last]);
    visit(offset, strides[last], length);
    count -= length;
    if (count == 0) return;
    offset -= index[last] * strides[last];
    index[last] = 0;
    for (int dim = last - 1; dim >= 0; --dim) {
      offset += strides[dim];
      if (++index[dim] < sizes[dim]) break;
      offset -= strides[dim] * sizes[dim];
      index[dim] = 0;
    }
  }
}

/// Copies rows of kRow elements each, by loops of constant length.
template <int kRow, typename Word>
void gather_rows_of(Word* to, const Word* x, int64_t rows, int64_t across, int64_t step) {
  if (across == 1 && step == 0) {  // each element kRow times
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < kRow; ++i) to[r * kRow + i] = x[r];
    return;
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < kRow; ++i) to[r * kRow + i] = x[r * across + i * step];
}

/// Fills rows with one element each, by lines that may reach into the next rows.
template <typename Word>
void splat_rows(Word* to, const Word* x, int64_t rows, int64_t row, int64_t across) {
  constexpr int64_t kLine = 64 / int64_t(sizeof(Word));
  using Line [[gnu::vector_size(64)]] = Word;
  const int64_t reach = (row + kLine - 1) / kLine * kLine;
  const int64_t whole = rows * row < reach ? 0 : (rows * row - reach) / row + 1;
  for (int64_t r = 0; r < rows; ++r, to += row) {
    const Word element = x[r * across];
    const Line line = Line{} + element;
    const int64_t end = r < whole ? reach : row;
    int64_t i = 0;
    for (; i + kLine <= end; i += kLine) std::memcpy(to + i, &line, sizeof(line));
    for (; i < end; ++i) to[i] = element;
  }
}

/// Copies rows by chunks of constant size; the last chunk of a row overlaps the one before.
template <size_t kBytes, typename Word>
void copy_rows(Word* to, const Word* x, int64_t rows, int64_t row, int64_t across) {
  constexpr int64_t kChunk = int64_t(kBytes / sizeof(Word));
  for (int64_t r = 0; r < rows; ++r, to += row, x += across) {
    for (int64_t i = 0; i + kChunk < row; i += kChunk) std::memcpy(to + i, x + i, kBytes);
    std::memcpy(to + row - kChunk, x + row - kChunk, kBytes);
  }
}

/// Fills rows with one row.
template <typename Word>
void repeat_row(Word* to, const Word* x, int64_t rows, int64_t row, int64_t step) {
  for (int64_t i = 0; i < row; ++i) to[i] = x[i * step];
  const int64_t count = rows * row;
  for (int64_t done = row; done < count;) {
    const int64_t n = std::min(done, count - done);
    std::memcpy(to + done, to, size_t(n) * sizeof(Word));
    done += n;
  }
}

// Functions that for_each_run() calls at several places are not inlined.
template <typename Word>
[[gnu::noinline]] void gather_rows(Word* to, const Word* x, int64_t rows, int64_t row,
                                   int64_t across, int64_t step) {
  if (across == 0) return repeat_row(to, x, rows, row, step);
  switch (row) {
    case 2:
      return gather_rows_of<2>(to, x, rows, across, step);
    case 3:
      return gather_rows_of<3>(to, x, rows, across, step);
    case 4:
      return gather_rows_of<4>(to, x, rows, across, step);
  }
  if (step == 0) return splat_rows(to, x, rows, row, across);
  const size_t bytes = size_t(row) * sizeof(Word);
  if (step == 1 && bytes >= 64) return copy_rows<64>(to, x, rows, row, across);
  if (step == 1 && bytes >= 32) return copy_rows<32>(to, x, rows, row, across);
  if (step == 1 && bytes >= 16) return copy_rows<16>(to, x, rows, row, across);
  for (int64_t r = 0; r < rows; ++r, to += row, x += across)
    for (int64_t i = 0; i < row; ++i) to[i] = x[i * step];
}

/// If the rows along the last dimension are short, calls visit_rows(done, offset, across, rows) for
/// rows that are `across` apart, and visit_part(done, start, count) for the parts of rows before
/// and behind; `done` elements precede them. Returns whether it did.
template <typename Rows, typename Part>
bool for_each_short_row(const int64_t* sizes, const int64_t* strides, int rank, int64_t start,
                        int64_t count, Rows visit_rows, Part visit_part) {
  const int64_t row = rank > 1 ? sizes[rank - 1] : kShortRun + 1;
  if (row > kShortRun) return false;
  const int64_t head = (row - start % row) % row, rows = (count - head) / row;
  if (rows <= 1) return false;
  if (head > 0) visit_part(int64_t(0), start, head);
  int64_t done = head;
  for_each_run(sizes, strides, rank - 1, (start + head) / row, rows,
               [&](int64_t offset, int64_t across, int64_t n) {
                 visit_rows(done, offset, across, n);
                 done += n * row;
               });
  if (done < count) visit_part(done, start + done, count - done);
  return true;
}

/// Copies n elements that are `step` apart.
template <typename Word>
[[gnu::noinline]] void gather_run(Word* to, const Word* x, int64_t step, int64_t n) {
  if (step == 1)
    for (int64_t i = 0; i < n; ++i) to[i] = x[i];
  else if (step == 0)
    splat_rows(to, x, 1, n, 0);
  else if (step == -1)  // reversed in registers
    for (int64_t i = 0; i < n; ++i) to[i] = x[-i];
  else if (step == 2)
    for (int64_t i = 0; i < n; ++i) to[i] = x[2 * i];
  else
    for (int64_t i = 0; i < n; ++i) to[i] = x[i * step];
}

template <typename Word>
void gather_words(Word* to, const Word* from, const int64_t* sizes, const int64_t* strides,
                  int rank, int64_t start, int64_t count) {
  const auto rows = [&](int64_t done, int64_t offset, int64_t across, int64_t n) {
    gather_rows(to + done, from + offset, n, sizes[rank - 1], across, strides[rank - 1]);
  };
  const auto part = [&](int64_t done, int64_t first, int64_t n) {
    gather_words(to + done, from, sizes, strides, rank, first, n);
  };
  if (for_each_short_row(sizes, strides, rank, start, count, rows, part)) return;
  for_each_run(sizes, strides, rank, start, count, [&](int64_t offset, int64_t step, int64_t n) {
    gather_run(to, from + offset, step, n);
    to += n;
  });
}

/// Writes rows of kRow elements each, by loops of constant length.
template <int kRow, typename Word>
void scatter_rows_of(const Word* x, Word* to, int64_t rows, int64_t across, int64_t step) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < kRow; ++i) to[r * across + i * step] = x[r * kRow + i];
}

template <typename Word>
[[gnu::noinline]] void scatter_rows(const Word* x, Word* to, int64_t rows, int64_t row,
                                    int64_t across, int64_t step) {
  switch (row) {
    case 2:
      return scatter_rows_of<2>(x, to, rows, across, step);
    case 3:
      return scatter_rows_of<3>(x, to, rows, across, step);
    case 4:
      return scatter_rows_of<4>(x, to, rows, across, step);
  }
  for (int64_t r = 0; r < rows; ++r, to += across, x += row)
    for (int64_t i = 0; i < row; ++i) to[i * step] = x[i];
}

/// Copies n elements to places that are `step` apart.
template <typename Word>
[[gnu::noinline]] void scatter_run(const Word* from, Word* y, int64_t step, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i * step] = from[i];
}

template <typename Word>
void scatter_words(const Word* from, Word* to, const int64_t* sizes, const int64_t* strides,
                   int rank, int64_t start, int64_t count) {
  const auto rows = [&](int64_t done, int64_t offset, int64_t across, int64_t n) {
    scatter_rows(from + done, to + offset, n, sizes[rank - 1], across, strides[rank - 1]);
  };
  const auto part = [&](int64_t done, int64_t first, int64_t n) {
    scatter_words(from + done, to, sizes, strides, rank, first, n);
  };
  if (for_each_short_row(sizes, strides, rank, start, count, rows, part)) return;
  for_each_run(sizes, strides, rank, start, count, [&](int64_t offset, int64_t step, int64_t n) {
    scatter_run(from, to + offset, step, n);
    from += n;
  });
}

/// The dimensions of one operand, with those joined that follow each other in its memory.
struct OwnDims {
  OwnDims(const int64_t* all_sizes, const int64_t* all_strides, int count) {
    for (int dim = 0; dim < count; ++dim) {
      if (rank > 0 && strides[rank - 1] == all_sizes[dim] * all_strides[dim]) {
        sizes[rank - 1] *= all_sizes[dim];
        strides[rank - 1] = all_strides[dim];
      } else {
        sizes[rank] = all_sizes[dim];
        strides[rank++] = all_strides[dim];
      }
    }
  }
  int64_t sizes[kMaxRank], strides[kMaxRank];
  int rank = 0;
};

}  // namespace

void gather(std::byte* to, const std::byte* from, int64_t element, const int64_t* sizes,
            const int64_t* strides, int rank, int64_t start, int64_t count) {
  const OwnDims own(sizes, strides, rank);
  with_word(element, [&]<typename Word>(Word) {
    gather_words(reinterpret_cast<Word*>(to), reinterpret_cast<const Word*>(from), own.sizes,
                 own.strides, own.rank, start, count);
  });
}

void scatter(const std::byte* from, std::byte* to, int64_t element, const int64_t* sizes,
             const int64_t* strides, int rank, int64_t start, int64_t count) {
  const OwnDims own(sizes, strides, rank);
  with_word(element, [&]<typename Word>(Word) {
    scatter_words(reinterpret_cast<const Word*>(from), reinterpret_cast<Word*>(to), own.sizes,
                  own.strides, own.rank, start, count);
  });
}

}  // namespace tapegrad::backends::cpu
