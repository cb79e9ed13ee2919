// Kernels of core: fill, copy with conversion, accumulate.
#include <algorithm>
#include <cstring>

#include "backends/cpu/register.h"
#include "backends/cpu/tools/map.h"
#include "backends/formulas.h"
#include "backends/joint_layout.h"
#include "core/dispatch/kernels.h"
#include "ops/reduce.h"

namespace tapegrad::backends::cpu {
namespace {

template <typename T>
void fill(Tensor& y, T value) {
  T* to = y.data<T>();
  if (y.is_contiguous())
    return for_each_block(y.numel(), 4 * kMapBlock,
                          [=](int64_t i, int64_t end) { std::fill(to + i, to + end, value); });
  for_each_row<1>(y.shape(), {y.strides()}, [&](auto at, auto step, int64_t count) {
    for (int64_t i = 0; i < count; ++i) to[at[0] + i * step[0]] = value;
  });
}

template <typename From, typename To>
void convert_all(const From* x, int64_t count, To* y) {
  if constexpr (std::is_same_v<From, To>)
    std::memcpy(y, x, size_t(count) * sizeof(To));
  else if constexpr (kIsHalf<From> && std::is_same_v<To, float>)
    widen(x, count, y);
  else if constexpr (std::is_same_v<From, float> && kIsHalf<To>)
    narrow(x, count, y);
  else
    for (int64_t i = 0; i < count; ++i) y[i] = convert<To>(x[i]);
}

/// Fills a row with a converted element. Not inlined, because the code for all types of x is the
/// same.
template <typename T>
[[gnu::noinline]] void fill_row(T* row, int64_t count, T value) {
  std::fill_n(row, count, value);
}

/// Computes y = x elementwise; x broadcasts to y.
template <typename From, typename To>
void copy_pieces(const Tensor& x, Tensor& y) {
  const Tensor* const inputs[] = {&x};
  const auto convert_rows = [](const void*, std::byte* y, const std::byte* const* inputs,
                               const detail::MapRows& rows) {
    const From* from = reinterpret_cast<const From*>(inputs[0]);
    To* to = reinterpret_cast<To*>(y);
    for (int64_t row = 0; row < rows.rows; ++row) {
      if (!rows.constant[0])
        convert_all(from, rows.count, to);
      else if constexpr (std::is_same_v<From, To>)
        std::fill_n(to, rows.count, *from);
      else
        fill_row(to, rows.count, convert<To>(*from));
      to += rows.pitch[0], from += rows.pitch[1];
    }
  };
  detail::map_pieces({convert_rows, nullptr, true}, y, inputs);
}

constexpr int64_t kTransposedRows = 32;

/// A register of words, and the side of a square of words.
template <typename Word>
using WordRow [[gnu::vector_size(sizeof(Batch<float>))]] = Word;
template <typename Word>
inline constexpr int64_t kSquare = int64_t(sizeof(WordRow<Word>) / sizeof(Word));

/// Exchanges the two off-diagonal blocks of each square of 2 x 2 blocks of kSize words.
template <int64_t kSize, typename Word, size_t... I>
void swap_blocks(WordRow<Word>* rows, std::index_sequence<I...>) {
  constexpr int64_t kCount = int64_t(sizeof...(I));
  for (int64_t i = 0; i < kCount; ++i) {
    if (i & kSize) continue;
    const WordRow<Word> a = rows[i], b = rows[i + kSize];
    rows[i] = __builtin_shufflevector(a, b, (I & kSize ? kCount + I - kSize : I)...);
    rows[i + kSize] = __builtin_shufflevector(a, b, (I & kSize ? kCount + I : I + kSize)...);
  }
  if constexpr (kSize > 1) swap_blocks<kSize / 2, Word>(rows, std::index_sequence<I...>{});
}

/// Computes y = the transpose of x. Prefetches the next squares, which are below x and to the right
/// of y.
template <typename Word>
void transpose_words(const Word* x, int64_t x_step, Word* y, int64_t y_step) {
  constexpr int64_t kSide = kSquare<Word>;
  WordRow<Word> rows[kSide];
  for (int64_t i = 0; i < kSide; ++i) {
    fetch(x + (i + kSide) * x_step);
    std::memcpy(&rows[i], x + i * x_step, sizeof(rows[i]));
  }
  swap_blocks<kSide / 2, Word>(rows, std::make_index_sequence<kSide>{});
  for (int64_t i = 0; i < kSide; ++i) {
    fetch_to_write(y + i * y_step + kSide);
    std::memcpy(y + i * y_step, &rows[i], sizeof(rows[i]));
  }
}

/// Transposes one tile-wide strip of rows of y. x's columns are contiguous in memory.
template <typename Word>
void transpose_rows(const Word* x, Word* y, int64_t first, int64_t last, int64_t columns,
                    int64_t x_step, int64_t y_step) {
  const auto word_by_word = [&](int64_t i, int64_t end_i, int64_t start_j, int64_t end_j) {
    for (; i < end_i; ++i)
      for (int64_t j = start_j; j < end_j; ++j) y[i * y_step + j] = x[j * x_step + i];
  };
  for (int64_t start = 0; start < columns; start += kTransposedRows) {
    const int64_t end = std::min(columns, start + kTransposedRows);
    if constexpr (sizeof(Word) >= sizeof(uint32_t)) {
      constexpr int64_t kSide = kSquare<Word>;
      const int64_t whole_i = last - (last - first) % kSide, whole_j = end - (end - start) % kSide;
      for (int64_t j = start; j < whole_j; j += kSide)
        for (int64_t i = first; i < whole_i; i += kSide)
          transpose_words(x + j * x_step + i, x_step, y + i * y_step + j, y_step);
      word_by_word(whole_i, last, start, whole_j);
      word_by_word(first, last, whole_j, end);
    } else {
      word_by_word(first, last, start, end);
    }
  }
}

/// Copies in tiles if x is contiguous along one dimension and y along another. Returns false
/// otherwise.
template <typename Word>
bool copy_as_transpose(const Tensor& x, Tensor& y) {
  const int rank = y.rank(), column = rank - 1;
  if (rank < 2 || x.shape() != y.shape() || y.numel() < kTransposedRows * kTransposedRows)
    return false;
  if (y.strides()[column] != 1 || y.shape()[column] < 2) return false;
  if (x.strides()[column] == 0 && x.shape()[column] >= kSquare<Word>)
    return false;  // rows of one number
  int row = -1;
  for (int dim = 0; dim < column; ++dim)
    if (x.strides()[dim] == 1 && x.shape()[dim] >= 2) row = dim;
  if (row < 0 || x.strides()[column] == 1) return false;
  if (std::max(x.shape()[row], x.shape()[column]) < kSquare<uint64_t>)
    return false;  // matrices smaller than a square

  Shape others;
  std::array<Strides, 2> strides;
  for (int dim = 0; dim < column; ++dim) {
    if (dim == row) continue;
    others.push_back(x.shape()[dim]);
    strides[0].push_back(x.strides()[dim]);
    strides[1].push_back(y.strides()[dim]);
  }
  const int64_t rows = y.shape()[row], columns = y.shape()[column];
  const int64_t strips = (rows + kTransposedRows - 1) / kTransposedRows, matrices = numel(others);
  const int64_t strips_per_block =
      std::max<int64_t>(1, 2 * kMapBlock / (kTransposedRows * columns));
  const Word* from = x.data<Word>();
  Word* to = y.data<Word>();
  for_each_block(matrices * strips, strips_per_block, [&](int64_t unit, int64_t end) {
    for (; unit < end; ++unit) {
      int64_t rest = unit / strips, x_offset = 0, y_offset = 0;
      for (int dim = others.rank() - 1; dim >= 0; --dim) {
        const int64_t index = rest % others[dim];
        rest /= others[dim];
        x_offset += index * strides[0][dim];
        y_offset += index * strides[1][dim];
      }
      const int64_t first = unit % strips * kTransposedRows;
      transpose_rows(from + x_offset, to + y_offset, first, std::min(rows, first + kTransposedRows),
                     columns, x.strides()[column], y.strides()[row]);
    }
  });
  return true;
}

bool copy_as_transpose(const Tensor& x, Tensor& y) {
  switch (size_of(y.dtype())) {
    case 1:
      return copy_as_transpose<uint8_t>(x, y);
    case 2:
      return copy_as_transpose<uint16_t>(x, y);
    case 4:
      return copy_as_transpose<uint32_t>(x, y);
    default:
      return copy_as_transpose<uint64_t>(x, y);
  }
}

/// Copies at least 16 bytes.
[[gnu::always_inline]] inline void copy_bytes(std::byte* to, const std::byte* from, int64_t count) {
  const auto blocks_of = [&](auto size) {  // the last block overlaps the one before
    int64_t i = 0;
    for (; i + size() <= count; i += size()) std::memcpy(to + i, from + i, size());
    if (i < count) std::memcpy(to + count - size(), from + count - size(), size());
  };
  if (count >= 64)
    blocks_of(std::integral_constant<int64_t, 64>());
  else
    blocks_of(std::integral_constant<int64_t, 16>());
}

/// Computes to[i] = from[-i] for `count` words.
template <typename Word>
void copy_reversed(Word* to, const Word* from, int64_t count) {
  constexpr int64_t kCount = kSquare<Word>;
  int64_t i = 0;
  for (; i + kCount <= count; i += kCount) {
    WordRow<Word> words;
    std::memcpy(&words, from - i - kCount + 1, sizeof(words));
    words = [&]<size_t... I>(std::index_sequence<I...>) {
      return __builtin_shufflevector(words, words, (kCount - 1 - I)...);
    }
    (std::make_index_sequence<kCount>());
    std::memcpy(to + i, &words, sizeof(words));
  }
  for (; i < count; ++i) to[i] = from[-i];
}
void copy_reversed(std::byte* to, const std::byte* from, int64_t count, int64_t element) {
  const auto words = [&]<typename Word>(Word) {
    copy_reversed(reinterpret_cast<Word*>(to), reinterpret_cast<const Word*>(from), count);
  };
  if (element == 1) words(uint8_t());
  if (element == 2) words(uint16_t());
  if (element == 4) words(uint32_t());
  if (element == 8) words(uint64_t());
}

/// Copies rows that are contiguous in y and, forwards or backwards, in x, as those of a narrowed
/// tensor, of permuted outer dimensions, or of a flipped tensor. Returns false if there are no such
/// rows of at least 16 bytes.
bool copy_contiguous_rows(const Tensor& x, Tensor& y) {
  const Strides from = broadcast_strides(x.layout(), y.shape());
  JointLayout<2> joint;
  for (int dim = 0; dim < y.rank(); ++dim)
    joint.add_dim(y.shape()[dim], {y.strides()[dim], from[dim]});
  const int last = joint.rank - 1;
  const int64_t element = size_of(y.dtype());
  if (last < 0 || joint.strides[0][last] != 1) return false;
  const bool reversed = joint.strides[1][last] == -1;
  if (!reversed && (last < 1 || joint.strides[1][last] != 1)) return false;
  const int64_t row = joint.sizes[last], bytes = row * element;
  if (bytes < 16) return false;
  std::byte* const ys = y.storage().data() + y.layout().offset * element;
  const std::byte* const xs = x.storage().data() + x.layout().offset * element;
  if (last == 0) {  // one row, flipped
    for_each_block(row, kMapBlock, [&](int64_t i, int64_t end) {
      copy_reversed(ys + i * element, xs - i * element, end - i, element);
    });
    return true;
  }
  for_each_block(
      y.numel() / row, std::max<int64_t>(1, kMapBlock / row), [&](int64_t i, int64_t end) {
        std::array<int64_t, kMaxRank> index{};
        int64_t y_offset = 0, x_offset = 0, rest = i;
        for (int dim = last - 1; dim >= 0; --dim) {
          index[dim] = rest % joint.sizes[dim];
          rest /= joint.sizes[dim];
          y_offset += index[dim] * joint.strides[0][dim];
          x_offset += index[dim] * joint.strides[1][dim];
        }
        const int across = last - 1;
        const int64_t to_step = joint.strides[0][across], from_step = joint.strides[1][across];
        while (true) {
          const int64_t rows = std::min(end - i, joint.sizes[across] - index[across]);
          std::byte* to = ys + y_offset * element;
          const std::byte* from = xs + x_offset * element;
          for (int64_t r = 0; r < rows; ++r) {
            if (reversed)
              copy_reversed(to, from, row, element);
            else
              copy_bytes(to, from, bytes);
            to += to_step * element, from += from_step * element;
          }
          i += rows;
          if (i == end) return;
          y_offset -= index[across] * to_step, x_offset -= index[across] * from_step;
          index[across] = 0;
          for (int dim = across - 1; dim >= 0; --dim) {
            y_offset += joint.strides[0][dim], x_offset += joint.strides[1][dim];
            if (++index[dim] < joint.sizes[dim]) break;
            y_offset -= joint.strides[0][dim] * joint.sizes[dim];
            x_offset -= joint.strides[1][dim] * joint.sizes[dim];
            index[dim] = 0;
          }
        }
      });
  return true;
}

template <typename T>
void copy(const Tensor& x, Tensor& y) {
  if (x.is_contiguous() && y.is_contiguous() && x.dtype() == y.dtype() && x.numel() == y.numel() &&
      y.numel() < kMapBlock) {
    std::memcpy(y.data<T>(), x.data<T>(), size_t(y.numel()) * sizeof(T));
    return;
  }
  if (x.dtype() == y.dtype()) {
    if (!x.is_contiguous() && copy_as_transpose(x, y)) return;
    if (!(x.is_contiguous() && y.is_contiguous()) && y.numel() > 0 && copy_contiguous_rows(x, y))
      return;
    return copy_pieces<T, T>(x, y);
  }
  with_type(y.dtype(), [&]<typename To>(TypeTag<To>) { copy_pieces<T, To>(x, y); });
}

/// Returns whether two indices may refer to one element: each dimension must step over everything
/// that smaller steps reach.
bool may_overlap(const StridedLayout& layout) {
  int64_t reach = 0, last = 0;  // of the dimensions with steps up to `last`
  for (int done = 0; done < layout.shape.rank(); ++done) {
    int next = -1;
    for (int i = 0; i < layout.shape.rank(); ++i)
      if (layout.shape[i] > 1 && layout.strides[i] > last &&
          (next < 0 || layout.strides[i] < layout.strides[next]))
        next = i;
      else if (layout.shape[i] > 1 && next >= 0 && layout.strides[i] == layout.strides[next])
        return true;  // two dimensions with equal steps
    if (next < 0) break;
    if (layout.strides[next] <= reach) return true;
    reach += layout.strides[next] * (layout.shape[next] - 1);
    last = layout.strides[next];
  }
  return false;
}

/// Computes y += x, one element after another, for overlapping windows.
template <typename T>
void accumulate_in_order(const Tensor& x, Tensor& y) {
  if constexpr (kIsHalf<T>) {  // sums the memory that y covers in float32
    StridedLayout layout = y.layout();
    int64_t reach = 1;
    for (int i = 0; i < y.rank(); ++i) reach += (y.shape()[i] - 1) * y.strides()[i];
    Tensor sums = Tensor::empty({reach}, f32);
    widen(y.data<T>(), reach, sums.data<float>());
    layout.offset = 0;
    Tensor window = sums.with_layout(layout);
    accumulate_in_order<float>(x.to(f32), window);
    narrow(sums.data<float>(), reach, y.data<T>());
  } else {
    const T* from = x.data<T>();
    T* to = y.data<T>();
    for_each_row<2>(x.shape(), {x.strides(), y.strides()}, [&](auto at, auto step, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        T& sum = to[at[1] + i * step[1]];
        sum = formulas::Add()(sum, from[at[0] + i * step[0]]);
      }
    });
  }
}

/// Computes y += x, where y broadcasts to x's shape.
template <typename T>
void accumulate(const Tensor& x, Tensor& y) {
  if (y.is_contiguous() && x.shape() == y.shape()) [[likely]]
    return map<T>(formulas::Add{}, y, y, x);
  if (x.numel() == 0) return;
  // y's own layout with x's shape: repeated dimensions receive the sum.
  StridedLayout target{x.shape(), broadcast_strides(y.layout(), x.shape()), y.layout().offset};
  bool sums = false;
  for (int dim = 0; dim < x.rank(); ++dim)
    if (target.strides[dim] == 0 && x.shape()[dim] > 1) {
      target.shape[dim] = 1;
      sums = true;
    }
  Tensor window = y.with_layout(target);
  if (sums) {
    Tensor sum = Tensor::empty(target.shape, is_float(x.dtype()) ? x.dtype() : i64);
    kernels::sum(x, 1.0, sum);
    return accumulate<T>(sum.to(x.dtype()), window);
  }
  if (may_overlap(target)) return accumulate_in_order<T>(x, window);
  map<T>(formulas::Add{}, window, window, x);
}

}  // namespace

void register_memory() {
  set<kernels::fill>(
      kAllTypes, []<typename T>(TypeTag<T>, Tensor& y, Number value) { fill<T>(y, value.to<T>()); },
      {.parts = Parts::kElements});
  set<kernels::copy>(kAllTypes, []<typename T>(TypeTag<T>, auto&... a) { copy<T>(a...); },
                     {.parts = Parts::kElements});
  set<kernels::accumulate>(kNumberTypes,
                           []<typename T>(TypeTag<T>, auto&... a) { accumulate<T>(a...); },
                           {.takes_packed = true, .parts = Parts::kElements});
}

}  // namespace tapegrad::backends::cpu
