// A tile of c, kMaxRows rows by two registers, stays in registers while one panel of a (rows of the
// tile) and one panel of b (columns of the tile) pass by. Panels are packed: the elements of a
// panel that belong to one index of the sum are contiguous. A thread packs a block of b, which
// stays in its second-level cache, and multiplies each panel of a by it. A panel of a is packed
// right before and stays in the first-level cache. Operands that fit into the first-level cache are
// not packed.
#include "backends/cpu/tools/product.h"

#include <algorithm>
#include <cstring>

#include <omp.h>

#include "backends/cpu/tools/functions.h"
#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/transpose.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cpu {
namespace {

// Accumulators of a tile, its columns of b and one element of a fill the registers.
constexpr int kMaxRows = XSIMD_WITH_AVX512F ? 14 : 6;
constexpr int kTileRegisters = 2;
constexpr int kMaxUnpackedRows = XSIMD_WITH_AVX512F ? 8 : 4;  // whose addresses fit into registers
constexpr int64_t kDepth = 256;                               // products summed before c is updated
constexpr int64_t kBlockBytes = 512 * 1024;                   // of a packed block of b
constexpr int64_t kFewTasks = 8, kLongSum = 2048;             // sums longer than that are split
constexpr int64_t kPanelsOfTask = 36;                         // for which packing b pays off
constexpr int64_t kTilesToFetch = 8;                          // in whose time a panel is fetched
constexpr double kFewestForTeam = 1 << 16;                    // multiply-adds
constexpr int64_t kCacheBytes = 32 * 1024;                    // of b, if it is not packed in panels
constexpr double kMostInCache = 1 << 18;                      // multiply-adds

template <typename T>
inline constexpr int64_t kPanelColumns = kTileRegisters* kLanes<T>;

constexpr int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

/// Returns a * b + c, rounded once where the processor can.
template <typename B>
B multiply_add(B a, B b, B c) {
#if defined(__FMA__) || XSIMD_WITH_AVX512F
  return functions::fused(a, b, c);
#else
  return a * b + c;
#endif
}

/// Applies a sum to an element, or sums to elements.
template <typename V>
V updated(Update update, V before, V sum) {
  return update == Update::kAdd ? before + sum : before - sum;
}

/// Updates `columns` elements of each of some rows of c by those of `lines`, `pitch` apart.
template <typename T>
[[gnu::noinline]] void write_lines(const T* lines, int64_t rows, int64_t pitch, T* c, int64_t ldc,
                                   int64_t columns, Update update) {
  using B = Batch<T>;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; j += kLanes<T>) {
      const int64_t count = std::min(kLanes<T>, columns - j);
      T* to = c + i * ldc + j;
      B sum = B::load_aligned(lines + i * pitch + j);
      if (count == kLanes<T>) {
        if (update != Update::kStore) sum = updated(update, B::load_unaligned(to), sum);
        sum.store_unaligned(to);
      } else if constexpr (std::is_same_v<T, float>) {
        if (update != Update::kStore) sum = updated(update, load_some(to, count), sum);
        store_some(to, count, sum);
      } else {
        for (int64_t k = 0; k < count; ++k) {
          const T rest = lines[i * pitch + j + k];
          to[k] = update == Update::kStore ? rest : updated(update, to[k], rest);
        }
      }
    }
}

/// Updates c by a b for one tile of kRows rows and `columns` columns; only kRegisters registers of
/// each row of b are used. Rows of a are `row` apart, its columns `column`, rows of b `step`. The
/// last row of b is at `last`.
template <typename T, int kRows, int kRegisters>
[[gnu::always_inline]] inline void multiply_tile(int64_t depth, const T* a, auto row, auto column,
                                                 const T* b, auto step, const T* last, T* c,
                                                 int64_t ldc, int64_t columns, Update update) {
  using B = Batch<T>;
  constexpr int64_t kLane = kLanes<T>;
  B sums[kRows][kRegisters];
  unrolled<kRows>([&](auto i) { unrolled<kRegisters>([&](auto v) { sums[i()][v()] = B(T(0)); }); });
  const auto add = [&](const T* from) __attribute__((always_inline)) {
    B values[kRegisters];
    unrolled<kRegisters>([&](auto v) { values[v()] = B::load_unaligned(from + v() * kLane); });
    unrolled<kRows>([&](auto i) {
      const B factor(a[i() * row]);
      unrolled<kRegisters>(
          [&](auto v) { sums[i()][v()] = multiply_add(factor, values[v()], sums[i()][v()]); });
    });
  };
  for (int64_t l = 1; l < depth; ++l, a += column, b += step) add(b);
  add(last);

  if (columns == kRegisters * kLane) {
    unrolled<kRows>([&](auto i) {
      unrolled<kRegisters>([&](auto v) {
        T* to = c + i() * ldc + v() * kLane;
        B sum = sums[i()][v()];
        if (update != Update::kStore) sum = updated(update, B::load_unaligned(to), sum);
        sum.store_unaligned(to);
      });
    });
    return;
  }
  alignas(64) T lanes[kRows][kRegisters * kLane];
  unrolled<kRows>([&](auto i) {
    unrolled<kRegisters>([&](auto v) { sums[i()][v()].store_aligned(lanes[i()] + v() * kLane); });
  });
  write_lines(lanes[0], kRows, kRegisters * kLane, c, ldc, columns, update);
}

template <int64_t kValue>
using Constant = std::integral_constant<int64_t, kValue>;

/// multiply_tile() for packed panels of a and b.
template <typename T, int kRows, int kRegisters>
void multiply_packed(int64_t depth, const T* a, const T* b, T* c, int64_t ldc, int64_t columns,
                     Update update) {
  constexpr Constant<kPanelColumns<T>> kStep;
  multiply_tile<T, kRows, kRegisters>(depth, a, Constant<1>(), Constant<kRows>(), b, kStep,
                                      b + (depth - 1) * kStep(), c, ldc, columns, update);
}
/// multiply_tile() for rows of a with any strides.
template <typename T, int kRows, int kRegisters>
void multiply_unpacked(int64_t depth, Matrix<T> a, const T* b, int64_t step, const T* last, T* c,
                       int64_t ldc, int64_t columns, Update update) {
  multiply_tile<T, kRows, kRegisters>(depth, a.data, a.row, a.column, b, step, last, c, ldc,
                                      columns, update);
}

template <typename T>
using PackedTile = void (*)(int64_t, const T*, const T*, T*, int64_t, int64_t, Update);
template <typename T>
using UnpackedTile = void (*)(int64_t, Matrix<T>, const T*, int64_t, const T*, T*, int64_t, int64_t,
                              Update);

/// Returns the function for packed tiles of `rows` rows and up to kPanelColumns columns.
template <typename T>
PackedTile<T> packed_tile_of(int64_t rows, int64_t columns) {
  return [=]<int... I>(std::integer_sequence<int, I...>) {
    static constexpr PackedTile<T> kNarrow[] = {multiply_packed<T, I + 1, 1>...};
    static constexpr PackedTile<T> kWide[] = {multiply_packed<T, I + 1, 2>...};
    return (columns <= kLanes<T> ? kNarrow : kWide)[rows - 1];
  }
  (std::make_integer_sequence<int, kMaxRows>());
}
/// Returns the function for tiles of `rows` rows and `columns` columns that are not packed.
template <typename T>
UnpackedTile<T> unpacked_tile_of(int64_t rows, int64_t columns) {
  return [=]<int... I>(std::integer_sequence<int, I...>) {
    static constexpr UnpackedTile<T> kNarrow[] = {multiply_unpacked<T, I + 1, 1>...};
    static constexpr UnpackedTile<T> kWide[] = {multiply_unpacked<T, I + 1, 2>...};
    if (rows == 1 && columns > 2 * kLanes<T>)
      return columns <= 3 * kLanes<T> ? multiply_unpacked<T, 1, 3> : multiply_unpacked<T, 1, 4>;
    return (columns <= kLanes<T> ? kNarrow : kWide)[rows - 1];
  }
  (std::make_integer_sequence<int, kMaxUnpackedRows>());
}

/// Transposes kLanes<float> numbers of each of `lines` lines, at most kLanes<float>. Stores rows of
/// a whole register; the next row overwrites what exceeds `lines`. Rows that would exceed the last
/// one are cut, because another thread may write there.
template <typename From>
void transpose_panel(const From* from, int64_t step, int64_t lines, float* to, int64_t pitch) {
  constexpr int kSide = int(kLanes<float>);
  FloatVector rows[kSide];
  unrolled<kSide>([&](auto i) {
    rows[i()] = load_batch(from + std::min<int64_t>(i(), lines - 1) * step).data;
  });
  transpose(rows);
  if (pitch + lines < kSide) {
    for (int64_t i = 0; i < kSide; ++i)
      std::memcpy(
          to + i * pitch, &rows[i],
          size_t(std::min<int64_t>(kSide, (kSide - 1 - i) * pitch + lines)) * sizeof(float));
    return;
  }
  unrolled<kSide - 1>(
      [&](auto i) { std::memcpy(to + i() * pitch, &rows[i()], sizeof(rows[i()])); });
  std::memcpy(to + (kSide - 1) * pitch, &rows[kSide - 1], size_t(lines) * sizeof(float));
}

/// Packs `lines` lines of `depth` numbers: to[l * pitch + i] = x[i * line + l * step], and any
/// finite or infinite values for i in [lines, pitch).
template <typename From, typename T>
void pack_panel(const From* x, int64_t line, int64_t step, int64_t lines, int64_t depth,
                int64_t pitch, T* to) {
  constexpr int64_t kLane = kLanes<T>;
  int64_t l = 0;
  if constexpr (std::is_same_v<T, float>)
    if (step == 1 && (lines == pitch || ceil_div(lines, kLane) * kLane <= pitch))
      for (; l + kLane <= depth; l += kLane)
        for (int64_t i = 0; i < lines; i += kLane)
          transpose_panel(x + i * line + l, line, std::min(kLane, lines - i), to + l * pitch + i,
                          pitch);
  const bool whole = line == 1 && lines % kLane == 0;
  for (; l < depth; ++l) {
    T* row = to + l * pitch;
    const From* from = x + l * step;
    if (whole)
      for (int64_t i = 0; i < lines; i += kLane) load_batch(from + i).store_unaligned(row + i);
    else
      for (int64_t i = 0; i < lines; ++i) row[i] = T(from[i * line]);
    if (lines < pitch) std::fill(row + lines, row + pitch, T(0));
  }
}

template <typename T, typename From>
class Product {
 public:
  Product(int64_t m, int64_t n, int64_t k, Matrix<From> a, Matrix<From> b, T* c, int64_t ldc,
          Update update)
      : m_(m), n_(n), k_(k), a_(a), b_(b), c_(c), ldc_(ldc), update_(update) {
    panels_ = ceil_div(m, kMaxRows);
    rows_ = ceil_div(m, panels_);
    threads_ = double(m) * double(n) * double(k) < kFewestForTeam ? 1 : omp_get_max_threads();
  }

  void run() {
    const int64_t tiles = panels_ * ceil_div(n_, kPanelColumns<T>);
    if (tiles < kFewTasks && k_ > kLongSum)
      run_split();
    else
      run_tasks();
  }

 private:
  /// Sums parts of long sums side by side, and adds the parts in order.
  void run_split() {
    const int64_t parts = std::min<int64_t>(16, ceil_div(k_, kLongSum / 2));
    const Tensor memory = Tensor::empty({parts, m_, n_}, kDTypeOf<T>);
    T* sums = memory.template data<T>();
#pragma omp parallel for num_threads(threads_)
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t first = part * k_ / parts, last = (part + 1) * k_ / parts;
      Product p(m_, n_, last - first, {a_.data + first * a_.column, a_.row, a_.column},
                {b_.data + first * b_.row, b_.row, b_.column}, sums + part * m_ * n_, n_,
                Update::kStore);
      p.threads_ = 1;
      p.run_tasks();
    }
    for (int64_t i = 0; i < m_; ++i)
      for (int64_t j = 0; j < n_; ++j) {
        T sum = T(0), *to = c_ + i * ldc_ + j;
        for (int64_t part = 0; part < parts; ++part) sum += sums[(part * m_ + i) * n_ + j];
        *to = update_ == Update::kStore ? sum : updated(update_, *to, sum);
      }
  }

  /// Divides c into blocks of columns, whose part of b fits into the cache, and these into ranges
  /// of panels until there are enough tasks for all threads.
  void run_tasks() {
    const int64_t tiles = ceil_div(n_, kPanelColumns<T>);
    const int64_t wanted = std::max<int64_t>(kFewTasks, 2 * threads_);
    int64_t column_blocks = ceil_div(n_ * kDepth * int64_t(sizeof(T)), kBlockBytes), row_blocks = 1;
    while (threads_ > 1 && column_blocks * row_blocks < wanted) {
      if (panels_ / row_blocks > kPanelsOfTask ||
          (column_blocks * 2 > tiles && row_blocks * 2 <= panels_))
        row_blocks *= 2;
      else if (column_blocks * 2 <= tiles)
        column_blocks *= 2;
      else
        break;
    }
    const int64_t width = ceil_div(tiles, column_blocks) * kPanelColumns<T>;
    // Of whole registers, so that a load from a block touches one line of the cache.
    const int64_t depth = std::min(k_, kDepth), block = width * depth;
    const int64_t workspace = block + (ceil_div(rows_ * depth, kLanes<T>) + 1) * kLanes<T>;
    const Tensor memory = Tensor::empty({threads_ * workspace}, kDTypeOf<T>);
    T* const workspaces = memory.template data<T>();
#pragma omp parallel for schedule(dynamic) num_threads(threads_) if (threads_ > 1)
    for (int64_t task = 0; task < column_blocks * row_blocks; ++task) {
      const int64_t column = task / row_blocks * width, part = task % row_blocks;
      T* own = workspaces + omp_get_thread_num() * workspace;
      if (column < n_)
        run_block(part * panels_ / row_blocks, (part + 1) * panels_ / row_blocks, column,
                  std::min(n_, column + width), own, own + block);
    }
  }

  /// Multiplies panels [begin, end) of a by columns [left, right) of b, with workspace for a packed
  /// block of b and a packed panel of a.
  void run_block(int64_t begin, int64_t end, int64_t left, int64_t right, T* block,
                 T* panel) const {
    const bool fetches = a_.column == 1 && right - left >= kTilesToFetch * kPanelColumns<T>;
    for (int64_t l = 0; l < k_; l += kDepth) {
      const int64_t depth = std::min(kDepth, k_ - l);
      const Update update = l > 0 && update_ == Update::kStore ? Update::kAdd : update_;
      for (int64_t j = left; j < right; j += kPanelColumns<T>)
        pack_panel(b_.data + l * b_.row + j * b_.column, b_.column, b_.row,
                   std::min(kPanelColumns<T>, right - j), depth, kPanelColumns<T>,
                   block + (j - left) * depth);
      for (int64_t p = begin; p < end; ++p) {
        const int64_t height = height_of(p), below = fetches && p + 1 < end ? height_of(p + 1) : 0;
        const From* rows = a_.data + p * rows_ * a_.row + l * a_.column;
        pack_panel(rows, a_.row, a_.column, height, depth, height, panel);
        for (int64_t j = left; j < right; j += kPanelColumns<T>) {
          const int64_t columns = std::min(kPanelColumns<T>, right - j);
          if (below > 0)
            fetch(rows + rows_ * a_.row, depth, below * (j - left) / (right - left),
                  below * (j - left + columns) / (right - left));
          packed_tile_of<T>(height, columns)(depth, panel, block + (j - left) * depth,
                                             c_ + p * rows_ * ldc_ + j, ldc_, columns, update);
        }
      }
    }
  }

  /// Number of rows of a panel; the last one may be lower than the others.
  int64_t height_of(int64_t panel) const { return std::min(rows_, m_ - panel * rows_); }

  /// Fetches `depth` numbers of each of rows [first, last) into the second-level cache.
  void fetch(const From* rows, int64_t depth, int64_t first, int64_t last) const {
    for (int64_t i = first; i < last; ++i)
      for (int64_t l = 0; l < depth; l += 64 / int64_t(sizeof(From)))
        __builtin_prefetch(rows + i * a_.row + l, 0, 2);
  }

  int64_t m_, n_, k_;
  Matrix<From> a_, b_;
  T* c_;
  int64_t ldc_;
  Update update_;
  int64_t panels_, rows_;  // panels of a, and rows of each but the last
  int threads_;
};

}  // namespace

template <typename T>
bool fits_into_cache(int64_t m, int64_t n, int64_t k) {
  return k <= kDepth && double(m) * double(n) * double(k) <= kMostInCache &&
         ceil_div(n, kLanes<T>) * kLanes<T> * k * int64_t(sizeof(T)) <= kCacheBytes;
}

template <typename T>
void multiply_in_cache(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, T* c, int64_t ldc,
                       Update update) {
  alignas(64) T packed[kCacheBytes / int64_t(sizeof(T))];
  const int64_t whole = ceil_div(n, kLanes<T>) * kLanes<T>;
  const T* rows = b.data;
  const T* last = b.data + (k - 1) * b.row;
  int64_t step = b.row;
  if (b.column != 1) {
    pack_panel(b.data, b.column, b.row, n, k, whole, packed);
    rows = packed, step = whole, last = packed + (k - 1) * whole;
  } else if (n != whole) {  // registers exceed a row, and memory may end behind the last one
    last = std::copy_n(last, n, packed) - n;
    std::fill(packed + n, packed + whole, T(0));
  }
  const int64_t panels = ceil_div(m, kMaxUnpackedRows), height = ceil_div(m, panels);
  const int64_t width = m == 1 ? 4 * kLanes<T> : kPanelColumns<T>;
  for (int64_t i = 0; i < m; i += height)
    for (int64_t j = 0; j < n; j += width) {
      const int64_t columns = std::min(width, n - j);
      unpacked_tile_of<T>(std::min(height, m - i), columns)(
          k, {a.data + i * a.row, a.row, a.column}, rows + j, step, last + j, c + i * ldc + j, ldc,
          columns, update);
    }
}

template <typename T, typename From>
void multiply_blocks(int64_t m, int64_t n, int64_t k, Matrix<From> a, Matrix<From> b, T* c,
                     int64_t ldc, Update update) {
  if constexpr (std::is_same_v<T, From>)
    if (fits_into_cache<T>(m, n, k)) return multiply_in_cache(m, n, k, a, b, c, ldc, update);
  Product<T, From>(m, n, k, a, b, c, ldc, update).run();
}

#define INSTANTIATE(T, From)                                                               \
  template void multiply_blocks(int64_t, int64_t, int64_t, Matrix<From>, Matrix<From>, T*, \
                                int64_t, Update);
INSTANTIATE(float, float)
INSTANTIATE(float, float16)
INSTANTIATE(float, bfloat16)
INSTANTIATE(double, double)
#undef INSTANTIATE
#define INSTANTIATE(T)                                                                          \
  template bool fits_into_cache<T>(int64_t, int64_t, int64_t);                                  \
  template void multiply_in_cache(int64_t, int64_t, int64_t, Matrix<T>, Matrix<T>, T*, int64_t, \
                                  Update);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tapegrad::backends::cpu
