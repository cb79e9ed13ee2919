#include "ops/reduce.h"

#include <algorithm>
#include <limits>

#include "backends/cpu/fast/norm_packed.h"
#include "backends/cpu/fast/products_summed.h"
#include "backends/cpu/register.h"
#include "backends/cpu/tools/functions_power.h"
#include "backends/cpu/tools/independent_rows.h"
#include "backends/cpu/tools/index_loops.h"
#include "backends/cpu/tools/reduce_frame.h"
#include "backends/cpu/tools/reducers.h"
#include "backends/cpu/tools/short_rows.h"
#include "core/dispatch/implementations.h"
#include "ops/internal/kernels/reduce.h"

namespace tapegrad::backends::cpu {
namespace {

/// A reducer of floats whose Parts are doubles or floats in vectors.
template <typename R>
concept OfDoubles = requires(Doubles x) {
  R::combine(x, x);
};
template <typename R>
concept OfFloats = requires(Batch<float> x) {
  R::combine(x, x);
};

/// Reduces the lanes of n columns in their order.
template <OfDoubles R>
void reduce_lanes(const Batch<float>* columns, int64_t n, double* totals) {
  WideFloats total(R::kFirst);
  for (int64_t c = 0; c < n; ++c) {
    const WideFloats wide(Floats(columns[c].data));
    total.lower = R::combine(total.lower, wide.lower);
    total.upper = R::combine(total.upper, wide.upper);
  }
  std::memcpy(totals, &total.lower, sizeof(total.lower));
  std::memcpy(totals + kDoubles, &total.upper, sizeof(total.upper));
}
template <OfFloats R>
void reduce_lanes(const Batch<float>* columns, int64_t n, float* totals) {
  Batch<float> total(R::kFirst);
  for (int64_t c = 0; c < n; ++c) total = R::combine(total, columns[c]);
  total.store_unaligned(totals);
}

/// Returns the lanes of the total of a row of n floats, in one vector.
template <OfDoubles R>
Doubles lanes_of_row(const float* x, int64_t n) {
  Doubles lower = Doubles{} + R::kFirst, upper = lower;
  const auto add = [&](Floats values) {
    const WideFloats wide(values);
    lower = R::combine(lower, wide.lower);
    upper = R::combine(upper, wide.upper);
  };
  int64_t i = 0;
  for (; i + kFloats <= n; i += kFloats) add(load_vector<Floats>(x + i));
  if (i < n) add(Floats(load_first(x + i, n - i, Batch<float>(0.0f)).data));
  return lower + upper;
}

/// Reduces contiguous rows of n floats, combining the lanes of kDoubles rows together.
template <OfDoubles R>
void reduce_middle_rows(const float* x, int64_t rows, int64_t n, const TotalWriter<double>& write) {
  for_each_tile_of_rows(rows, n, kParallel, [&](int64_t first, int64_t count) {
    for (int64_t row = first; row < first + count; row += kDoubles) {
      const int64_t together = std::min<int64_t>(kDoubles, first + count - row);
      Doubles lanes[kDoubles] = {};
      for (int64_t r = 0; r < together; ++r) lanes[r] = lanes_of_row<R>(x + (row + r) * n, n);
      const Doubles totals =
          combine_lanes<double>(lanes, [](Doubles a, Doubles b) { return a + b; });
      double in_order[kDoubles];
      std::memcpy(in_order, &totals, sizeof(totals));
      write(row, 1, in_order, together);
    }
  });
}

/// reduce(), with faster ways for contiguous rows of few floats.
template <typename T, typename R>
void reduce_any(const R& r, const Tensor& x, const Tensor& y,
                const TotalWriter<typename R::Total>& write) {
  if constexpr (std::is_same_v<T, float> && (OfDoubles<R> || OfFloats<R>)) {
    const int64_t rows = x.numel() > 0 ? contiguous_rows(x, y) : 0;
    const int64_t n = rows > 0 ? x.numel() / rows : kMiddleRow + 1;
    if constexpr (requires { R::kAddsLanes; })
      if (n >= kFloats && n <= kMiddleRow)
        return reduce_middle_rows<R>(x.data<float>(), rows, n, write);
    if (n < kShortRow)
      return for_each_tile_of_rows(rows, n, kParallel, [&](int64_t row, int64_t count) {
        Batch<float> columns[kShortRow];
        load_columns(x.data<float>() + row * n, count, n, columns);
        typename R::Total totals[kTileOfRows];
        reduce_lanes<R>(columns, n, totals);
        write(row, 1, totals, count);
      });
  }
  reduce<T>(r, x, y, write);
}

/// Returns a function that writes each total to y, whose elements have type T.
template <typename T>
auto rounded_to(Tensor& y) {
  return [out = y.data<T>()](int64_t i, double total) { out[i] = convert<T>(total); };
}

/// The type as which integers of type T are summed.
template <typename T>
using Plain = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

template <typename T>
void sum(const Tensor& x, double divisor, Tensor& y) {
  if constexpr (kIsFloat<T>)
    reduce_any<T>(WideSumOf<Compute<T>>{}, x, y,
                  [divisor, out = y.data<T>()](int64_t i, double total) {
                    out[i] = convert<T>(divisor == 1 ? total : total / divisor);
                  });
  else  // a sum of bools is one of bytes
    reduce<Plain<T>>(SumOf<Plain<T>>{}, x, y, [out = y.data<int64_t>()](int64_t i, uint64_t total) {
      out[i] = int64_t(total);
    });
}

/// Sums over positions of images in a packed layout, or over images and positions.
template <Packable T>
struct SumPacked {
  static constexpr std::string_view kName = "packed";
  static constexpr bool kTakesPacked = true;
  static bool is_available() { return is_packable(kDTypeOf<T>); }

  static std::optional<PackedValues> accepts(const Tensor& x, double, const Tensor& y) {
    if (!x.storage().is_packed()) return {};
    const int64_t images = y.rank() >= 3 ? y.shape()[0] * y.shape()[1] : 0;
    if (images != y.numel() || y.shape()[1] != x.shape()[1]) return {};
    return packed_values(x);
  }
  static void run(TypeTag<T>, const PackedValues& values, const Tensor&, double divisor,
                  Tensor& y) {
    const Packing& p = values.packing;
    std::vector<double> parts(size_t(p.batch * p.channels));
    image_sums_packed<T>(values, parts.data());
    T* out = y.data<T>();
    const int64_t together = y.numel() == p.channels ? p.batch : 1;
    for (int64_t i = 0; i < y.numel(); ++i) {
      double total = 0;
      for (int64_t image = 0; image < together; ++image)
        total += parts[size_t(image * p.channels + i)];
      out[i] = convert<T>(total / divisor);
    }
  }
};

struct SumInOrder {
  static constexpr std::string_view kName = "in_order";
  template <typename T>
  static void run(TypeTag<T>, const Tensor& x, double divisor, Tensor& y) {
    sum<T>(x, divisor, y);
  }
};

/// Adds products as soon as they are computed, block by block.
struct ProductsInOnePass {
  static constexpr std::string_view kName = "one_pass";

  static bool accepts(const Tensor& a, const Tensor& b, const Tensor& y) {
    if (a.storage().is_packed() || b.storage().is_packed() || !a.is_contiguous() ||
        !b.is_contiguous() || a.numel() == 0)
      return false;
    const int64_t rows = contiguous_rows(a, y);  // the sums of short rows have faster ways
    return rows == 0 || a.numel() / rows >= kShortRow;
  }
  template <typename T>
  requires kIsFloat<T>
  static void run(TypeTag<T> type, const Tensor& a, const Tensor& b, Tensor& y) {
    using R = WideSumOf<Compute<T>>;
    reduce_elements(R{}, Elements<typename R::Value>(type, a, b), a, y, rounded_to<T>(y), nullptr);
  }
};

/// WideSumOf without NaN.
template <typename T>
struct PresentSumOf : SumOf<T, double> {
  double add(double part, Compute<T> value) const {
    return part + (value == value ? double(value) : 0.0);
  }
  static double block(const float* values, int64_t n) {
    WideSum even, odd;
    const auto present = [&](int64_t at) {
      const Floats x = load_vector<Floats>(values + at);
      return x == x ? x : Floats{};
    };
    int64_t i = 0;
    for (; i + 2 * kFloats <= n; i += 2 * kFloats) {
      fetch(values + i + kFetchAhead / 2);
      fetch(values + i + kFloats + kFetchAhead / 2);
      even.add(present(i));
      odd.add(present(i + kFloats));
    }
    double total = even.total() + odd.total();
    for (; i < n; ++i) total += values[i] == values[i] ? double(values[i]) : 0.0;
    return total;
  }
};

template <typename T>
void nansum(const Tensor& x, Tensor& y) {
  reduce<T>(PresentSumOf<Compute<T>>{}, x, y, rounded_to<T>(y));
}

/// Counts the elements that have a bit in common with the mask. Compiled for words of 8, 32 and 64
/// bits.
template <typename W>
struct CountOf {
  using Value = W;
  using Part = int32_t;
  using Total = int64_t;
  static constexpr Part kFirst = 0;
  W mask;  // all bits, but not the sign of a float: -0 is not counted

  Part add(Part part, Value value) const { return part + Part((value & mask) != 0); }
  Part merge(Part a, Part b) const { return a + b; }
  Total join(Total a, Total b) const { return a + b; }
  Total repeat(Total total, int64_t n) const { return total * n; }
};

template <typename T>
void count_nonzero(const Tensor& x, Tensor& y) {
  using Bits = Word<sizeof(T)>;
  using W = std::conditional_t<sizeof(T) == 2, uint32_t, Bits>;
  const Bits all = Bits(~Bits(0));
  reduce<Bits>(CountOf<W>{kIsFloat<T> ? Bits(all >> 1) : all}, x, y,
               [out = y.data<int64_t>()](int64_t i, int64_t total) { out[i] = total; });
}

template <typename T>
void prod(const Tensor& x, Tensor& y) {
  const ProductOf<Compute<T>> product;
  if constexpr (kIsFloat<T>)
    reduce_any<T>(product, x, y, rounded_to<T>(y));
  else
    reduce<T>(product, x, y,
              [out = y.data<int64_t>()](int64_t i, uint64_t total) { out[i] = int64_t(total); });
}

/// The largest of integers whose bits are reversed by `flip`, which also reverses their order.
template <typename T>
struct ExtremeOfIntegers {
  using Value = T;
  using Part = T;
  using Total = T;
  static constexpr Part kFirst = std::numeric_limits<T>::lowest();
  T flip;  // 0 for the largest integer, ~0 for the smallest

  Part add(Part part, Value value) const { return merge(part, Value(value ^ flip)); }
  [[gnu::noinline]] Total block(const Value* values, int64_t n) const {  // else not vectorised
    Total most = kFirst;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; ++i) most = std::max(most, Value(values[i] ^ flip));
    return most;
  }
  Part merge(Part a, Part b) const { return std::max(a, b); }
  Total join(Total a, Total b) const { return std::max(a, b); }
  Total repeat(Total total, int64_t) const { return total; }
};

template <bool kLargest, typename T>
void extreme_value(const Tensor& x, Tensor& y) {
  if constexpr (kIsFloat<T>) {
    reduce_any<T>(ExtremeOf<Compute<T>, kLargest>{}, x, y,
                  [out = y.data<T>()](int64_t i, auto total) { out[i] = T(total); });
  } else {
    constexpr T kFlip = kLargest ? T(0) : T(~T(0));
    reduce<T>(ExtremeOfIntegers<T>{kFlip}, x, y,
              [out = y.data<T>()](int64_t i, T total) { out[i] = T(total ^ kFlip); });
  }
}

template <typename T>
void contains(const Tensor& x, bool zero, bool yes, Tensor& y) {
  reduce<T>(Contains{zero}, x, y,
            [yes, out = y.data<bool>()](int64_t i, auto found) { out[i] = (found != 0) == yes; });
}

/// The sum of |x|^p for any p.
template <typename T>
struct AnyPowersOf : SumOf<T, double> {
  double p;

  explicit AnyPowersOf(double p) : p(p) {}
  double add(double part, Compute<T> value) const { return part + power(double(value)); }
  double block(const float* values, int64_t n) const {
    return sum_in_double(values, n, [this](auto x) { return this->power(x); });
  }
  template <int k>
  void add_rows(double* parts, const float* const (&rows)[k], int64_t first, int64_t last) const {
    combine_in_double(parts, rows, first, last,
                      [this](auto a, auto b) { return a + this->power(b); });
  }

 private:
  double power(double x) const {
    const double size = std::fabs(x);
    return p == 0 ? double(x != 0) : p == 3 ? size * size * size : std::pow(size, p);
  }
  Doubles power(Doubles x) const {
    const Doubles zero{}, one = zero + 1.0, size = x < zero ? -x : x;
    if (p == 0) return x != zero ? one : zero;
    if (p == 3) return size * size * size;
    using B = xsimd::batch<double>;
    const Doubles regular = size == zero ? one : size;  // pow() is slow for a zero
    const Doubles result(functions::pow(B(B::register_type(regular)), B(p)).data);
    return size == zero ? zero + std::pow(0.0, p) : result;
  }
};

template <typename T>
void norm(const Tensor& x, double p, Tensor& y) {
  T* out = y.data<T>();
  if (p == 1) return reduce_any<T>(PowersOf<Compute<T>, 1>{}, x, y, rounded_to<T>(y));
  if (p == 2)
    return reduce_any<T>(PowersOf<Compute<T>, 2>{}, x, y,
                         [out](int64_t i, double total) { out[i] = convert<T>(std::sqrt(total)); });
  reduce<T>(AnyPowersOf<Compute<T>>(p), x, y, [out, p](int64_t i, double total) {
    out[i] = convert<T>(p == 0 ? total : std::pow(total, 1 / p));
  });
}

template <typename T>
void var(const Tensor& x, double divisor, bool root, Tensor& y) {
  const double count = double(x.numel() / std::max<int64_t>(y.numel(), 1));
  std::vector<double> means(y.numel());
  reduce_any<T>(WideSumOf<Compute<T>>{}, x, y,
                [&](int64_t i, double total) { means[size_t(i)] = total / count; });
  reduce<T>(
      SquaresOf<Compute<T>>{}, x, y,
      [=, out = y.data<T>()](int64_t i, double total) {
        out[i] = convert<T>(root ? std::sqrt(total / divisor) : total / divisor);
      },
      means.data());
}

}  // namespace

void register_reduce() {
  // narrow_integers.cpp widens the other integers to int64, the dtype of their results.
  constexpr TypeList<float16, bfloat16, float, double, int64_t, bool> kSumTypes;
  constexpr TypeList<float16, bfloat16, float, double, int64_t> kProductTypes;
  set_implementations<kernels::sum, SumPacked<float>, SumPacked<bfloat16>, SumInOrder>(
      DeviceType::kCpu, kSumTypes);
  set_implementations<kernels::sum_of_products, ProductsInRegisters, ProductsInOnePass>(
      DeviceType::kCpu, kFloatTypes);
  set<kernels::prod>(kProductTypes, []<typename T>(TypeTag<T>, auto&... a) { prod<T>(a...); });
  set<kernels::amax>(kNumberTypes,
                     []<typename T>(TypeTag<T>, auto&... a) { extreme_value<true, T>(a...); });
  set<kernels::amin>(kNumberTypes,
                     []<typename T>(TypeTag<T>, auto&... a) { extreme_value<false, T>(a...); });
  set<kernels::contains>(kAllTypes, []<typename T>(TypeTag<T>, auto&... a) { contains<T>(a...); });
  set<kernels::nansum>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { nansum<T>(a...); });
  set<kernels::count_nonzero>(kAllTypes,
                              []<typename T>(TypeTag<T>, auto&... a) { count_nonzero<T>(a...); });
  set<kernels::norm>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { norm<T>(a...); });
  set<kernels::var>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { var<T>(a...); });

  constexpr auto kPlain = [](const Tensor& x, const Tensor& y) { return rows_reduced(x, y); };
  constexpr auto kNorm = [](const Tensor& x, double, const Tensor& y) {
    return rows_reduced(x, y);
  };
  constexpr auto kVar = [](const Tensor& x, double, bool, const Tensor& y) {
    return rows_reduced(x, y);
  };
  constexpr auto kExtreme = [](const Tensor& x, const Tensor& y) {
    return x.dtype() == f32 ? contiguous_rows(x, y) : rows_reduced(x, y);
  };
  set_independent_rows<kernels::amax, 0b11, kExtreme>(kFloatTypes);
  set_independent_rows<kernels::amin, 0b11, kExtreme>(kFloatTypes);
  set_independent_rows<kernels::prod, 0b11, kPlain>(kFloatTypes);
  set_independent_rows<kernels::norm, 0b101, kNorm>(kFloatTypes);
  set_independent_rows<kernels::var, 0b1001, kVar>(kFloatTypes);
}

}  // namespace tapegrad::backends::cpu
