// Distances between all pairs of rows. Differences are computed in registers, so close rows lose no
// digits. Sums of few terms are made in the type of the operands and added in double.
#include <algorithm>
#include <cmath>

#include "backends/cpu/fast/cdist_narrow.h"
#include "backends/cpu/register.h"
#include "backends/cpu/tools/functions.h"
#include "backends/cpu/tools/lanes.h"
#include "backends/cpu/tools/per_thread.h"
#include "ops/internal/kernels/cdist.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int kTileHeight = 4;                             // rows of x1 in a tile
constexpr int kTileVectors = kLanes<float> >= 16 ? 4 : 2;  // registers of x2 in a tile
constexpr int64_t kFloatTerms = 64;                        // terms that are added without double
constexpr int64_t kRowsOfTask = 512;

template <typename V>
inline constexpr int64_t kTileWidth = kTileVectors* kLanes<V>;

template <typename V>
struct Squares {
  using B = Batch<V>;
  static B add(B sum, B d) { return functions::fused(d, d, sum); }
  static double join(double a, double b) { return a + b; }
  static V finish(double sum) { return V(std::sqrt(sum)); }
  static B finish(B sum) { return xsimd::sqrt(sum); }
  /// Returns whether squares may have overflowed or lost digits below the normal numbers.
  static bool is_doubtful(double sum) { return !(sum > 0x1p-80 && sum < 0x1p+120); }
  static bool has_doubtful(B sum) {
    return !xsimd::all((sum > B(V(0x1p-80))) & (sum < B(V(0x1p+120))));
  }
};
template <typename V>
struct AbsoluteValues {
  using B = Batch<V>;
  static B add(B sum, B d) { return sum + xsimd::fabs(d); }
  static double join(double a, double b) { return a + b; }
  static V finish(double sum) { return V(sum); }
  static B finish(B sum) { return sum; }
  static bool is_doubtful(double) { return false; }
  static bool has_doubtful(B) { return false; }
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
  static B finish(B most) { return most; }
  static bool is_doubtful(double) { return false; }
  static bool has_doubtful(B) { return false; }
};

/// Sums over terms [first, last) between kTileHeight rows of a and the columns of `packed`
/// [k, kTileWidth<V>].
template <typename Norm, typename V>
[[gnu::always_inline]] inline void add_terms(const V* const* a, const V* packed, int64_t first,
                                             int64_t last, Batch<V> (*sums)[kTileVectors]) {
  using B = Batch<V>;
  unrolled<kTileHeight>(
      [&](auto r) { unrolled<kTileVectors>([&](auto v) { sums[r()][v()] = B(V(0)); }); });
  for (int64_t i = first; i < last; ++i) {
    B b[kTileVectors];
    unrolled<kTileVectors>(
        [&](auto v) { b[v()] = B::load_unaligned(packed + i * kTileWidth<V> + v() * kLanes<V>); });
    unrolled<kTileHeight>([&](auto r) {
      const B x(a[r()][i]);
      unrolled<kTileVectors>(
          [&](auto v) { sums[r()][v()] = Norm::add(sums[r()][v()], x - b[v()]); });
    });
  }
}

/// A tile of distances of at most kFloatTerms terms, kTileWidth<V> in each row of `to`. Returns
/// false if a sum is doubtful. The square root of a float is the same in double.
template <typename Norm, typename V>
bool short_tile(const V* const* a, const V* packed, int64_t k, V* const* to) {
  Batch<V> sums[kTileHeight][kTileVectors];
  add_terms<Norm, V>(a, packed, 0, k, sums);
  bool is_sure = true;
  unrolled<kTileHeight>([&](auto r) {
    unrolled<kTileVectors>([&](auto v) {
      is_sure = is_sure && !Norm::has_doubtful(sums[r()][v()]);
      Norm::finish(sums[r()][v()]).store_unaligned(to[r()] + v() * kLanes<V>);
    });
  });
  return is_sure;
}

/// The sums of a tile in double.
template <typename Norm, typename V>
void tile(const V* const* a, const V* packed, int64_t k, double (*totals)[kTileWidth<V>]) {
  for (int r = 0; r < kTileHeight; ++r) std::fill_n(totals[r], kTileWidth<V>, 0.0);
  for (int64_t first = 0; first < k; first += kFloatTerms) {
    Batch<V> sums[kTileHeight][kTileVectors];
    add_terms<Norm, V>(a, packed, first, std::min(k, first + kFloatTerms), sums);
    alignas(64) V parts[kTileHeight][kTileWidth<V>];
    unrolled<kTileHeight>([&](auto r) {
      unrolled<kTileVectors>(
          [&](auto v) { sums[r()][v()].store_aligned(parts[r()] + v() * kLanes<V>); });
    });
    for (int r = 0; r < kTileHeight; ++r)
      for (int64_t c = 0; c < kTileWidth<V>; ++c)
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

/// Transposes `width` rows of b to columns of `packed` [k, kTileWidth<V>], some terms at a time;
/// other columns are 0.
template <typename V>
void pack_columns(const V* b, int64_t k, int64_t width, V* packed) {
  constexpr int64_t kTogether = 16;
  for (int64_t first = 0; first < k; first += kTogether) {
    const int64_t last = std::min(k, first + kTogether);
    for (int64_t c = 0; c < kTileWidth<V>; ++c)
      for (int64_t i = first; i < last; ++i)
        packed[i * kTileWidth<V> + c] = c < width ? b[c * k + i] : V(0);
  }
}

template <typename Norm, typename V>
void distances(const Tensor& x1, const Tensor& x2, Tensor& y) {
  constexpr int64_t kWidth = kTileWidth<V>;
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
    pack_columns(b, k, width, packed);
    for (int64_t i = begin; i < end; i += kTileHeight) {
      const V* rows[kTileHeight];
      for (int r = 0; r < kTileHeight; ++r) rows[r] = a + std::min(i + r, end - 1) * k;
      if (k <= kFloatTerms) {
        alignas(64) V some[kTileHeight][kWidth];
        V* to[kTileHeight];
        const bool is_whole = width == kWidth && i + kTileHeight <= end;
        for (int r = 0; r < kTileHeight; ++r)
          to[r] = is_whole ? y.data<V>() + (batch * n + i + r) * m + column : some[r];
        if (short_tile<Norm>(rows, packed, k, to)) {
          if (!is_whole)
            for (int64_t r = 0; r < std::min<int64_t>(kTileHeight, end - i); ++r)
              std::copy_n(some[r], width, y.data<V>() + (batch * n + i + r) * m + column);
          continue;
        }
      }
      double totals[kTileHeight][kWidth];
      tile<Norm>(rows, packed, k, totals);
      for (int64_t r = 0; r < std::min<int64_t>(kTileHeight, end - i); ++r) {
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
  const auto run = p == 1   ? distances<AbsoluteValues<V>, V>
                   : p == 2 ? distances<Squares<V>, V>
                            : distances<Largest<V>, V>;
  run(x1, x2, y);
}

constexpr int64_t kTaskRows = 16;   // rows of x1 in a task of the gradient
constexpr int64_t kSome = 1 << 10;  // most rows of x2 at a time

/// Weights [kTaskRows, stride] of `count` pairs of each row: dy / y, or dy where y is 0 or
/// `signs`. slopes and lengths are at the first pair; `strides` are those of rows and of pairs.
template <bool kSigns, typename V>
void weigh(const V* slopes, const int64_t* slope_strides, const V* lengths,
           const int64_t* length_strides, int64_t rows, int64_t count, V* weights, int64_t stride) {
  using B = Batch<V>;
  constexpr int64_t kLane = kLanes<V>;
  const auto weight = [](const auto& slope, const auto& length) {
    if constexpr (kSigns)
      return slope;
    else if constexpr (std::is_same_v<std::remove_cvref_t<decltype(slope)>, B>)
      return select(length == B(V(0)), slope, slope / length);
    else
      return length == 0 ? slope : slope / length;
  };
  if (slope_strides[1] == 1 && length_strides[1] == 1) {
    for (int64_t r = 0; r < rows; ++r) {
      const V *slope = slopes + r * slope_strides[0], *length = lengths + r * length_strides[0];
      int64_t j = 0;
      for (; j + kLane <= count; j += kLane)
        weight(B::load_unaligned(slope + j), B::load_unaligned(length + j))
            .store_unaligned(weights + r * stride + j);
      for (; j < count; ++j) weights[r * stride + j] = weight(slope[j], length[j]);
    }
    return;
  }
  const bool is_transposed = slope_strides[0] == 1 && length_strides[0] == 1 && rows == kTaskRows;
  alignas(64) V some[kTaskRows];
  for (int64_t j = 0; j < count; ++j) {
    const V *slope = slopes + j * slope_strides[1], *length = lengths + j * length_strides[1];
    if (is_transposed) {
      __builtin_prefetch(slope + 16 * slope_strides[1]);
      __builtin_prefetch(length + 16 * length_strides[1]);
      for (int64_t r = 0; r < kTaskRows; r += kLane)
        weight(B::load_unaligned(slope + r), B::load_unaligned(length + r)).store_aligned(some + r);
    } else {
      for (int64_t r = 0; r < rows; ++r)
        some[r] = weight(slope[r * slope_strides[0]], length[r * length_strides[0]]);
    }
    for (int64_t r = 0; r < rows; ++r) weights[r * stride + j] = some[r];
  }
}

/// Adds the sums over `count` rows of b of weights[r][j] (a[r] - b[j]), or of weights[r][j]
/// sign(a[r] - b[j]), to `totals` for kWide registers of columns. Rows of b have a stride of k.
template <bool kSigns, int kWide, typename V>
void add_pulls(const V* const* a, const V* const* weights, const V* b, int64_t k, int64_t count,
               double* const* totals) {
  using B = Batch<V>;
  constexpr int64_t kLane = kLanes<V>;
  B x[kTileHeight][kWide];
  unrolled<kTileHeight>([&](auto r) {
    unrolled<kWide>([&](auto v) { x[r()][v()] = B::load_unaligned(a[r()] + v() * kLane); });
  });
  for (int64_t start = 0; start < count; start += kFloatTerms / 2) {
    B sums[kTileHeight][kWide];
    unrolled<kTileHeight>(
        [&](auto r) { unrolled<kWide>([&](auto v) { sums[r()][v()] = B(V(0)); }); });
    for (int64_t j = start; j < std::min(count, start + kFloatTerms / 2); ++j) {
      B other[kWide];
      unrolled<kWide>([&](auto v) { other[v()] = B::load_unaligned(b + j * k + v() * kLane); });
      unrolled<kTileHeight>([&](auto r) {
        const B weight(weights[r()][j]), zero(V(0));
        unrolled<kWide>([&](auto v) {
          const B d = x[r()][v()] - other[v()];
          if constexpr (kSigns)
            sums[r()][v()] =
                sums[r()][v()] + select(d > zero, weight, select(d < zero, zero - weight, d));
          else
            sums[r()][v()] = functions::fused(weight, d, sums[r()][v()]);
        });
      });
    }
    alignas(64) V parts[kTileHeight][kWide * kLane];
    unrolled<kTileHeight>([&](auto r) {
      unrolled<kWide>([&](auto v) { sums[r()][v()].store_aligned(parts[r()] + v() * kLane); });
    });
    for (int r = 0; r < kTileHeight; ++r)
      for (int64_t c = 0; c < kWide * kLane; ++c) totals[r][c] += double(parts[r][c]);
  }
}

/// Returns rows [batch, n, k] with zeros behind them, so that a row fills registers.
template <typename V>
Tensor whole_registers(const Tensor& x) {
  const int64_t k = x.shape()[2], padded = (k + kLanes<V> - 1) / kLanes<V> * kLanes<V>;
  if (k == padded) return x;
  const int64_t rows = x.shape()[0] * x.shape()[1];
  Tensor wide = Tensor::empty({rows, padded}, x.dtype(), x.device());
  for (int64_t row = 0; row < rows; ++row) {
    V* to = std::copy_n(x.data<V>() + row * k, k, wide.data<V>() + row * padded);
    std::fill_n(to, padded - k, V(0));
  }
  return wide;
}

/// Computes dx1[i] = the sum over j of w[i, j] (x1[i] - x2[j]) with w = dy / y for p = 2, or of
/// w[i, j] sign(x1[i] - x2[j]) with w = dy for p = 1.
template <bool kSigns, typename V>
void pull(const Tensor& dy, const Tensor& x1, const Tensor& x2, const Tensor& y, Tensor& dx1) {
  constexpr int64_t kLane = kLanes<V>;
  const int64_t n = x1.shape()[1], m = x2.shape()[1], k = x1.shape()[2];
  const int64_t parts = (n + kTaskRows - 1) / kTaskRows, padded = (k + kLane - 1) / kLane * kLane;
  const Tensor rows1 = whole_registers<V>(x1), rows2 = whole_registers<V>(x2);
  // Whole sums of add_pulls(), of rows that stay in the second-level cache.
  const int64_t some =
      std::clamp<int64_t>((1 << 16) / padded / kFloatTerms * kFloatTerms, kFloatTerms, kSome);
  // Not a multiple of 4 KB, which would put all rows into one set of the cache.
  int64_t stride = std::min(some, (m + 15) / 16 * 16);
  if (stride % 512 == 0) stride += 16;
  const int64_t of_weights = kTaskRows * stride * int64_t(sizeof(V) / sizeof(float));
  PerThread memory(of_weights + kTaskRows * padded * int64_t(sizeof(double) / sizeof(float)));
#pragma omp parallel for if (y.numel() * k > (1 << 16))
  for (int64_t task = 0; task < x1.shape()[0] * parts; ++task) {
    const int64_t batch = task / parts, first = task % parts * kTaskRows;
    const int64_t rows = std::min(kTaskRows, n - first);
    V* weights = reinterpret_cast<V*>(memory.mine());
    double* totals = reinterpret_cast<double*>(memory.mine() + of_weights);
    std::fill_n(totals, kTaskRows * padded, 0.0);
    const auto at = [&](const Tensor& pairs, int64_t j) {
      const int64_t* strides = pairs.strides().begin();
      return pairs.data<V>() + batch * strides[0] + first * strides[1] + j * strides[2];
    };
    for (int64_t from = 0; from < m; from += some) {
      const int64_t count = std::min(some, m - from);
      weigh<kSigns>(at(dy, from), dy.strides().begin() + 1, at(y, from), y.strides().begin() + 1,
                    rows, count, weights, stride);
      const V* b = rows2.data<V>() + (batch * m + from) * padded;
      for (int64_t column = 0; column < padded;) {
        const bool is_wide = column + 2 * kLane <= padded;
        for (int64_t row = 0; row < rows; row += kTileHeight) {
          const V *a[kTileHeight], *own[kTileHeight];
          double* into[kTileHeight];
          for (int64_t r = 0; r < kTileHeight; ++r) {  // the last row may be computed several times
            const int64_t i = std::min(row + r, rows - 1);
            a[r] = rows1.data<V>() + (batch * n + first + i) * padded + column;
            own[r] = weights + i * stride;
            into[r] = totals + (row + r) * padded + column;
          }
          (is_wide ? add_pulls<kSigns, 2, V> : add_pulls<kSigns, 1, V>)(a, own, b + column, padded,
                                                                        count, into);
        }
        column += is_wide ? 2 * kLane : kLane;
      }
    }
    V* to = dx1.data<V>() + (batch * n + first) * k;
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < k; ++c) to[r * k + c] = V(totals[r * padded + c]);
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
