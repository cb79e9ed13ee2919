#include "backends/cpu/tools/factor.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/tools/functions.h"
#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/product.h"
#include "backends/cpu/tools/share.h"
#include "backends/cpu/tools/transpose.h"

namespace tapegrad::backends::cpu {
namespace {

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"  // with sanitizers loops are not vectorised
#endif

constexpr int64_t kSmall = 32;                // triangles that are solved by columns
constexpr int64_t kFewestForStrips = 4;       // columns that are solved by vectors
constexpr int64_t kNarrow = 8;                // columns that are factored one by one
constexpr int64_t kParallelFactor = 1 << 14;  // elements that justify a second thread

/// Computes c -= a b.
template <typename T>
void subtract(int64_t m, int64_t n, int64_t k, Block<T> a, Block<T> b, Block<T> c) {
  if (m == 0 || n == 0 || k == 0) return;
  if (c.column == 1)
    multiply_blocks(m, n, k, a.matrix(), b.matrix(), c.data, c.row, Update::kSubtract);
  else
    multiply_blocks(n, m, k, b.transposed().matrix(), a.transposed().matrix(), c.data, c.column,
                    Update::kSubtract);
}

/// Solves for one column after another, or for all columns together if rows are contiguous.
template <typename T>
void solve_small(Triangular form, int64_t n, int64_t columns, Block<T> t, Block<T> b) {
  const auto eliminate = [&](int64_t first, int64_t last) {
    for (int64_t step = 0; step < n; ++step) {
      const int64_t k = form.upper ? n - 1 - step : step;
      if (!form.unit)
        for (int64_t j = first; j < last; ++j) b.at(k, j) /= t.at(k, k);
      const int64_t begin = form.upper ? 0 : k + 1, end = form.upper ? k : n;
      if (b.column == 1) {
        const T* source = &b.at(k, first);
        for (int64_t i = begin; i < end; ++i) {
          const T factor = t.at(i, k);
          T* row = &b.at(i, first);
          for (int64_t j = 0; j < last - first; ++j) row[j] -= factor * source[j];
        }
      } else {
        for (int64_t j = first; j < last; ++j) {
          const T factor = b.at(k, j);
          T* column = &b.at(0, j);
          if (t.row == 1) {
            const T* from = &t.at(0, k);
            for (int64_t i = begin; i < end; ++i) column[i] -= from[i] * factor;
          } else {
            for (int64_t i = begin; i < end; ++i) column[i] -= t.at(i, k) * factor;
          }
        }
      }
    }
  };
  constexpr int64_t kColumns = 128;
  share_tasks((columns + kColumns - 1) / kColumns, n * columns > kParallelFactor,
              [&](int64_t i) { eliminate(i * kColumns, std::min(columns, (i + 1) * kColumns)); });
}

/// A triangle of at most kSmall rows in the order of elimination: row and column i of the matrix
/// are those at index(i), and the element (i, k) for k < i is -factors[i][k].
template <typename T>
struct Elimination {
  Elimination(Triangular form, int64_t n, Block<T> t)
      : is_upper(form.upper), is_unit(form.unit), n(n) {
    for (int64_t i = 0; i < n; ++i) {
      diagonal[i] = t.at(index(i), index(i));
      for (int64_t k = 0; k < i; ++k) factors[i][k] = -t.at(index(i), index(k));
    }
  }
  int64_t index(int64_t i) const { return is_upper ? n - 1 - i : i; }

  bool is_upper, is_unit;
  int64_t n;
  alignas(64) T factors[kSmall][kSmall];
  T diagonal[kSmall];
};

constexpr int kSolvedTogether = XSIMD_WITH_AVX512F ? 8 : 4;  // that are solved in registers
constexpr int kSolvedRegisters = 2;                          // registers of a row

/// Solves rows [first, first + kRows) of kSolvedRegisters registers; rows before them are solved.
template <typename T, int kRows>
void solve_lanes(const Elimination<T>& t, int64_t first, Block<T> b) {
  using B = Batch<T>;
  constexpr int64_t kLane = kLanes<T>;
  B x[kRows][kSolvedRegisters];
  unrolled<kRows>([&](auto i) {
    const T* from = &b.at(t.index(first + i()), 0);
    unrolled<kSolvedRegisters>(
        [&](auto v) { x[i()][v()] = B::load_unaligned(from + v() * kLane); });
  });
  for (int64_t k = 0; k < first; ++k) {
    const T* from = &b.at(t.index(k), 0);
    B known[kSolvedRegisters];
    unrolled<kSolvedRegisters>([&](auto v) { known[v()] = B::load_unaligned(from + v() * kLane); });
    unrolled<kRows>([&](auto i) {
      const B factor(t.factors[first + i()][k]);
      unrolled<kSolvedRegisters>(
          [&](auto v) { x[i()][v()] = functions::fused(factor, known[v()], x[i()][v()]); });
    });
  }
  unrolled<kRows>([&](auto k) {
    T* to = &b.at(t.index(first + k()), 0);
    unrolled<kSolvedRegisters>([&](auto v) {
      if (!t.is_unit) x[k()][v()] /= B(t.diagonal[first + k()]);
      x[k()][v()].store_unaligned(to + v() * kLane);
    });
    unrolled<kRows>([&](auto i) {
      if constexpr (i() > k()) {
        const B factor(t.factors[first + i()][first + k()]);
        unrolled<kSolvedRegisters>(
            [&](auto v) { x[i()][v()] = functions::fused(factor, x[k()][v()], x[i()][v()]); });
      }
    });
  });
}

/// Solves for as many columns as kSolvedRegisters registers have lanes; rows are contiguous.
template <typename T>
void solve_strip(const Elimination<T>& t, Block<T> b) {
  int64_t i = 0;
  for (; i + kSolvedTogether <= t.n; i += kSolvedTogether) solve_lanes<T, kSolvedTogether>(t, i, b);
  [&]<int... kRows>(std::integer_sequence<int, kRows...>) {
    ((t.n - i == kRows + 1 ? solve_lanes<T, kRows + 1>(t, i, b) : void()), ...);
  }
  (std::make_integer_sequence<int, kSolvedTogether - 1>());
}

/// Solves for a strip of columns after another.
template <typename T>
void solve_strips(Triangular form, int64_t n, int64_t columns, Block<T> t, Block<T> b) {
  constexpr int64_t kWidth = kSolvedRegisters * kLanes<T>;
  const Elimination<T> elimination(form, n, t);
  share_tasks((columns + kWidth - 1) / kWidth, n * columns > kParallelFactor, [&](int64_t strip) {
    const Block<T> here = b.from(0, strip * kWidth);
    const int64_t count = std::min(kWidth, columns - strip * kWidth);
    if (count == kWidth && b.column == 1) return solve_strip(elimination, here);
    alignas(64) T copy[kSmall * kWidth] = {};
    const Block<T> rows{copy, kWidth, 1};
    const bool by_columns = b.row == 1;
    if (by_columns)
      copy_transposed(count, n, here.data, here.column, copy, kWidth);
    else
      for (int64_t i = 0; i < n; ++i) std::copy_n(&here.at(i, 0), count, &rows.at(i, 0));
    solve_strip(elimination, rows);
    if (by_columns)
      copy_transposed(n, count, copy, kWidth, here.data, here.column);
    else
      for (int64_t i = 0; i < n; ++i) std::copy_n(&rows.at(i, 0), count, &here.at(i, 0));
  });
}

/// Computes the lower triangle of c -= a a^T.
template <typename T>
void subtract_square(int64_t n, int64_t k, Block<T> a, Block<T> c) {
  if (n <= 4 * kSmall) return subtract(n, n, k, a, a.transposed(), c);
  const int64_t half = n / 2;
  subtract_square(half, k, a, c);
  subtract(n - half, half, k, a.from(half, 0), a.transposed(), c.from(half, 0));
  subtract_square(n - half, k, a.from(half, 0), c.from(half, half));
}

template <typename T>
int64_t factor_narrow(int64_t m, int64_t n, Block<T> a, int* pivots) {
  int64_t failed = 0;
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < m; ++i)
      if (std::fabs(a.at(i, k)) > std::fabs(a.at(pivot, k))) pivot = i;
    pivots[k] = int(pivot + 1);
    if (pivot != k)
      for (int64_t j = 0; j < n; ++j) std::swap(a.at(k, j), a.at(pivot, j));
    if (a.at(k, k) == T(0)) {
      if (failed == 0) failed = k + 1;
      continue;
    }
    const T diagonal = a.at(k, k);
    for (int64_t i = k + 1; i < m; ++i) a.at(i, k) /= diagonal;
    for (int64_t j = k + 1; j < n; ++j) {
      const T factor = a.at(k, j);
      for (int64_t i = k + 1; i < m; ++i) a.at(i, j) -= a.at(i, k) * factor;
    }
  }
  return failed;
}

/// Factors a square matrix of up to kRows rows by the operations of factor_narrow(), on columns of
/// kRows numbers, for which loops are vectors. Rows stay at their places until the end: `order` has
/// the row at each position.
template <int64_t kRows, typename T>
int64_t factor_small(int64_t n, Block<T> a, int* pivots) {
  alignas(64) T columns[kRows][kRows] = {};
  alignas(64) T left[kRows];  // 1 for a row that is not a pivot yet
  int order[kRows];
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < n; ++i) columns[j][i] = a.at(i, j);
  for (int64_t i = 0; i < kRows; ++i) order[i] = int(i), left[i] = T(i < n);

  int64_t failed = 0;
  for (int64_t k = 0; k < n; ++k) {
    T* const factors = columns[k];
    int64_t place = k;
    for (int64_t i = k + 1; i < n; ++i)
      if (std::fabs(factors[order[i]]) > std::fabs(factors[order[place]])) place = i;
    pivots[k] = int(place + 1);
    std::swap(order[k], order[place]);
    const int pivot = order[k];
    left[pivot] = T(0);
    const T diagonal = factors[pivot];
    if (diagonal == T(0)) {
      if (failed == 0) failed = k + 1;
      continue;
    }
#pragma omp simd
    for (int64_t i = 0; i < kRows; ++i) {
      const T quotient = factors[i] / diagonal;
      factors[i] = left[i] != T(0) ? quotient : factors[i];
    }
    for (int64_t j = k + 1; j < n; ++j) {
      T* const column = columns[j];
      const T factor = column[pivot];
#pragma omp simd
      for (int64_t i = 0; i < kRows; ++i) {
        const T reduced = column[i] - factors[i] * factor;
        column[i] = left[i] != T(0) ? reduced : column[i];
      }
    }
  }
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < n; ++i) a.at(i, j) = columns[j][order[i]];
  return failed;
}

}  // namespace

template <typename T>
void solve_triangle(Triangular form, int64_t n, int64_t columns, Block<T> t, Block<T> b) {
  if (n <= kSmall && columns < kFewestForStrips) return solve_small(form, n, columns, t, b);
  if (n <= kSmall) return solve_strips(form, n, columns, t, b);
  const int64_t half = n / 2, rest = n - half;
  if (form.upper) {
    solve_triangle(form, rest, columns, t.from(half, half), b.from(half, 0));
    subtract(half, columns, rest, t.from(0, half), b.from(half, 0), b);
    solve_triangle(form, half, columns, t, b);
  } else {
    solve_triangle(form, half, columns, t, b);
    subtract(rest, columns, half, t.from(half, 0), b, b.from(half, 0));
    solve_triangle(form, rest, columns, t.from(half, half), b.from(half, 0));
  }
}

template <typename T>
int64_t factor_cholesky(int64_t n, Block<T> a) {
  if (n <= kSmall) {
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t k = 0; k < j; ++k)
        for (int64_t i = j; i < n; ++i) a.at(i, j) -= a.at(i, k) * a.at(j, k);
      if (!(a.at(j, j) > T(0))) return j + 1;
      const T root = std::sqrt(a.at(j, j));
      a.at(j, j) = root;
      for (int64_t i = j + 1; i < n; ++i) a.at(i, j) /= root;
    }
    return 0;
  }
  const int64_t half = n / 2, rest = n - half;
  if (const int64_t failed = factor_cholesky(half, a)) return failed;
  // The lower left block X solves X L^T = A, that is L X^T = A^T.
  const Block<T> below = a.from(half, 0);
  solve_triangle({.upper = false, .unit = false}, half, rest, a, below.transposed());
  subtract_square(rest, half, below, a.from(half, half));
  const int64_t failed = factor_cholesky(rest, a.from(half, half));
  return failed == 0 ? 0 : half + failed;
}

template <typename T>
void exchange_rows(int64_t count, const int* pivots, bool reversed, int64_t columns, Block<T> a) {
  share_tasks(columns, count * columns > kParallelFactor, [&](int64_t j) {
    for (int64_t step = 0; step < count; ++step) {
      const int64_t i = reversed ? count - 1 - step : step;
      if (pivots[i] - 1 != i) std::swap(a.at(i, j), a.at(pivots[i] - 1, j));
    }
  });
}

template <typename T>
int64_t factor_lu(int64_t m, int64_t n, Block<T> a, int* pivots) {
  if (std::min(m, n) <= kNarrow) return factor_narrow(m, n, a, pivots);
  if (m == n && n <= 16) return factor_small<16>(n, a, pivots);
  if (m == n && n <= 32) return factor_small<32>(n, a, pivots);
  const int64_t half = std::min(m, n) / 2, rest = n - half;
  const int64_t failed = factor_lu(m, half, a, pivots);
  const Block<T> right = a.from(0, half), corner = a.from(half, half);
  exchange_rows(half, pivots, /*reversed=*/false, rest, right);
  solve_triangle({.upper = false, .unit = true}, half, rest, a, right);
  subtract(m - half, rest, half, a.from(half, 0), right, corner);
  const int64_t later = factor_lu(m - half, rest, corner, pivots + half);
  exchange_rows(std::min(m - half, rest), pivots + half, /*reversed=*/false, half, a.from(half, 0));
  for (int64_t i = half; i < std::min(m, n); ++i) pivots[i] += int(half);
  return failed != 0 ? failed : later != 0 ? half + later : 0;
}

#define INSTANTIATE(T)                                                            \
  template void solve_triangle(Triangular, int64_t, int64_t, Block<T>, Block<T>); \
  template int64_t factor_cholesky(int64_t, Block<T>);                            \
  template int64_t factor_lu(int64_t, int64_t, Block<T>, int*);                   \
  template void exchange_rows(int64_t, const int*, bool, int64_t, Block<T>);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tapegrad::backends::cpu
