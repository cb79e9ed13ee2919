// Distances between all pairs of rows. Differences are computed in registers, so close rows lose no
// digits. Sums of few terms are made in the type of the operands and added in double.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/fast/cdist_narrow.h"
#include "backends/cpu/register.h"
#include "backends/cpu/tools/functions.h"
#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/per_thread.h"
#include "ops/internal/cdist_kernels.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int kRows = 4;                               // rows of x1 in a tile
constexpr int kVectors = kLanes<float> >= 16 ? 4 : 2;  // registers of x2 in a tile
constexpr int64_t kTerms = 64;                         // terms that are added without double
constexpr int64_t kRowsOfTask = 512;

template <typename V>
inline constexpr int64_t kColumns = kVectors* kLanes<V>;

template <typename V>
struct Squares {
  using B = Batch<V>;
  static B add(B sum, B d) { return functions::fused(d, d, sum); }
  static double join(double a, double b) { return a + b; }
  static V finish(double sum) { return V(std::sqrt(sum)); }
  /// Whether squares may have overflowed or lost digits below the normal numbers.
  static bool is_doubtful(double sum) { return !(sum > 0x1p-80 && sum < 0x1p+120); }
};
template <typename V>
struct Sizes {
  using B = Batch<V>;
  static B add(B sum, B d) { return sum + xsimd::fabs(d); }
  static double join(double a, double b) { return a + b; }
  static V finish(double sum) { return V(sum); }
  static bool is_doubtful(double) { return false; }
};
template <typename V>
struct Largest {
  using B = Batch<V>;
  static B add(B most, B d) {
    const B size = xsimd::fabs(d);
    return select((size > most) | !(size == size), size, most);  // NaN does not compare
  }
  static double join(double a, double b) { return b > a || b != b ? b : a; }
  static V finish(double most) { return V(most); }
  static bool is_doubtful(double) { return false; }
};

/// Sums over k between kRows rows of a and the columns of `packed` [k, kColumns<V>].
template <typename Norm, typename V>
void tile(const V* const* a, const V* packed, int64_t k, double (*totals)[kColumns<V>]) {
  using B = Batch<V>;
  constexpr int64_t kLane = kLanes<V>;
  for (int r = 0; r < kRows; ++r) std::fill_n(totals[r], kColumns<V>, 0.0);
  for (int64_t first = 0; first < k; first += kTerms) {
    const int64_t last = std::min(k, first + kTerms);
    B sums[kRows][kVectors];
    unrolled<kRows>([&](auto r) { unrolled<kVectors>([&](auto v) { sums[r()][v()] = B(V(0)); }); });
    for (int64_t i = first; i < last; ++i) {
      B b[kVectors];
      unrolled<kVectors>(
          [&](auto v) { b[v()] = B::load_unaligned(packed + i * kColumns<V> + v() * kLane); });
      unrolled<kRows>([&](auto r) {
        const B x(a[r()][i]);
        unrolled<kVectors>([&](auto v) { sums[r()][v()] = Norm::add(sums[r()][v()], x - b[v()]); });
      });
    }
    alignas(64) V parts[kRows][kColumns<V>];
    unrolled<kRows>([&](auto r) {
      unrolled<kVectors>([&](auto v) { sums[r()][v()].store_aligned(parts[r()] + v() * kLane); });
    });
    for (int r = 0; r < kRows; ++r)
      for (int64_t c = 0; c < kColumns<V>; ++c)
        totals[r][c] = Norm::join(totals[r][c], double(parts[r][c]));
  }
}

template <typename V>
double squares_in_double(const V* a, const V* b, int64_t k) {
  double sum = 0;
  for (int64_t i = 0; i < k; ++i) {
    const double d = double(a[i] - b[i]);
    sum += d * d;
  }
  return sum;
}

/// Transposes `width` rows of b to columns of `packed` [k, kColumns<V>], some terms at a time;
/// other columns are 0.
template <typename V>
void pack(const V* b, int64_t k, int64_t width, V* packed) {
  constexpr int64_t kTogether = 16;
  for (int64_t first = 0; first < k; first += kTogether) {
    const int64_t last = std::min(k, first + kTogether);
    for (int64_t c = 0; c < kColumns<V>; ++c)
      for (int64_t i = first; i < last; ++i)
        packed[i * kColumns<V> + c] = c < width ? b[c * k + i] : V(0);
  }
}

template <typename Norm, typename V>
void distances(const Tensor& x1, const Tensor& x2, Tensor& y) {
  constexpr int64_t kWidth = kColumns<V>;
  const int64_t n = x1.shape()[1], m = x2.shape()[1], k = x1.shape()[2];
  const int64_t strips = (m + kWidth - 1) / kWidth, parts = (n + kRowsOfTask - 1) / kRowsOfTask;
  PerThread memory(k * kWidth * int64_t(sizeof(V) / sizeof(float)));
#pragma omp parallel for if (y.numel() * k > (1 << 16))
  for (int64_t task = 0; task < x1.shape()[0] * strips * parts; ++task) {
    const int64_t batch = task / parts / strips, column = task / parts % strips * kWidth;
    const int64_t begin = task % parts * kRowsOfTask, end = std::min(n, begin + kRowsOfTask);
    const int64_t width = std::min(kWidth, m - column);
    const V* a = x1.data<V>() + batch * n * k;
    const V* b = x2.data<V>() + (batch * m + column) * k;
    V* packed = reinterpret_cast<V*>(memory.mine());
    pack(b, k, width, packed);
    for (int64_t i = begin; i < end; i += kRows) {
      const V* rows[kRows];
      for (int r = 0; r < kRows; ++r) rows[r] = a + std::min(i + r, end - 1) * k;
      double totals[kRows][kWidth];
      tile<Norm>(rows, packed, k, totals);
      for (int64_t r = 0; r < std::min<int64_t>(kRows, end - i); ++r) {
        V* to = y.data<V>() + (batch * n + i + r) * m + column;
        for (int64_t c = 0; c < width; ++c) to[c] = Norm::finish(totals[r][c]);
        for (int64_t c = 0; c < width; ++c)
          if (Norm::is_doubtful(totals[r][c])) [[unlikely]]
            to[c] = Norm::finish(squares_in_double(rows[r], b + c * k, k));
      }
    }
  }
}

template <typename V>
void cdist(const Tensor& x1, const Tensor& x2, double p, Tensor& y) {
  const auto run = p == 1   ? distances<Sizes<V>, V>
                   : p == 2 ? distances<Squares<V>, V>
                            : distances<Largest<V>, V>;
  run(x1, x2, y);
}

/// dx1[i] = the sum over j of w[i, j] (x1[i] - x2[j]) with w = dy / y for p = 2, or of w[i, j]
/// sign(x1[i] - x2[j]) with w = dy for p = 1.
template <bool kSigns, typename V>
void pull(const Tensor& dy, const Tensor& x1, const Tensor& x2, const Tensor& y, Tensor& dx1) {
  using B = Batch<V>;
  constexpr int64_t kLane = kLanes<V>, kWide = 2 * kLane;
  const int64_t n = x1.shape()[1], m = x2.shape()[1], k = x1.shape()[2];
  const int64_t parts = (n + kRows - 1) / kRows;
  PerThread memory(kRows * m * int64_t(sizeof(V) / sizeof(float)));
#pragma omp parallel for if (y.numel() * k > (1 << 16))
  for (int64_t task = 0; task < x1.shape()[0] * parts; ++task) {
    const int64_t batch = task / parts, first = task % parts * kRows;
    const int64_t rows = std::min<int64_t>(kRows, n - first);
    V* weights = reinterpret_cast<V*>(memory.mine());  // [m, kRows]
    for (int64_t r = 0; r < kRows; ++r) {
      const int64_t i = std::min(first + r, n - 1);
      const V* slopes = dy.data<V>() + batch * dy.strides()[0] + i * dy.strides()[1];
      const V* lengths = y.data<V>() + batch * y.strides()[0] + i * y.strides()[1];
      for (int64_t j = 0; j < m; ++j) {
        const V slope = slopes[j * dy.strides()[2]], length = lengths[j * y.strides()[2]];
        weights[j * kRows + r] = kSigns ? slope : length == 0 ? slope : slope / length;
      }
    }
    const V* a = x1.data<V>() + (batch * n + first) * k;
    const V* b = x2.data<V>() + batch * m * k;
    V* to = dx1.data<V>() + (batch * n + first) * k;
    for (int64_t column = 0; column < k; column += kWide) {
      const int64_t width = std::min(kWide, k - column);
      const auto load = [&](const V* row, B* values) __attribute__((always_inline)) {
        if (width == kWide) [[likely]] {
          values[0] = B::load_unaligned(row + column);
          values[1] = B::load_unaligned(row + column + kLane);
        } else {
          alignas(64) V some[kWide] = {};
          std::copy_n(row + column, width, some);
          values[0] = B::load_aligned(some), values[1] = B::load_aligned(some + kLane);
        }
      };
      B x[kRows][2];
      unrolled<kRows>([&](auto r) { load(a + std::min<int64_t>(r(), rows - 1) * k, x[r()]); });
      double totals[kRows][kWide] = {};
      for (int64_t start = 0; start < m; start += kTerms / 2) {
        B sums[kRows][2];
        unrolled<kRows>([&](auto r) { sums[r()][0] = sums[r()][1] = B(V(0)); });
        const int64_t end = std::min(m, start + kTerms / 2);
        for (int64_t j = start; j < end; ++j) {
          B other[2];
          load(b + j * k, other);
          unrolled<kRows>([&](auto r) {
            const B weight(weights[j * kRows + r()]), zero(V(0));
            unrolled<2>([&](auto v) {
              const B d = x[r()][v()] - other[v()];
              if constexpr (kSigns)
                sums[r()][v()] =
                    sums[r()][v()] + select(d > zero, weight, select(d < zero, zero - weight, d));
              else
                sums[r()][v()] = functions::fused(weight, d, sums[r()][v()]);
            });
          });
        }
        alignas(64) V parts[kRows][kWide];
        unrolled<kRows>([&](auto r) {
          sums[r()][0].store_aligned(parts[r()]), sums[r()][1].store_aligned(parts[r()] + kLane);
        });
        for (int r = 0; r < kRows; ++r)
          for (int64_t c = 0; c < kWide; ++c) totals[r][c] += double(parts[r][c]);
      }
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < width; ++c) to[r * k + column + c] = V(totals[r][c]);
    }
  }
}

template <typename V>
void cdist_backward(const Tensor& dy, const Tensor& x1, const Tensor& x2, const Tensor& y, double p,
                    Tensor& dx1) {
  if (x1.shape()[2] <= kNarrowPoints) return cdist_narrow_backward<V>(dy, x1, x2, y, p == 1, dx1);
  p == 1 ? pull<true, V>(dy, x1, x2, y, dx1) : pull<false, V>(dy, x1, x2, y, dx1);
}

}  // namespace

void register_cdist() {
  constexpr TypeList<float, double> kTypes;
  set<kernels::cdist>(kTypes, []<typename T>(TypeTag<T>, auto&... a) { cdist<T>(a...); });
  set<kernels::cdist_backward>(kTypes,
                               []<typename T>(TypeTag<T>, auto&... a) { cdist_backward<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
