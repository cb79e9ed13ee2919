// Fourier transforms along one dimension. A few signals at a time are gathered into a buffer of the
// thread, with separate real and imaginary parts, transformed, and scattered to the result. Few or
// long contiguous signals are transformed one by one.
#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <utility>

#include <omp.h>

#include "backends/cpu/register.h"
#include "backends/cpu/tools/fft_plan.h"
#include "backends/cpu/tools/transpose.h"
#include "ops/fft.h"

namespace tapegrad::backends::cpu {
namespace {

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"  // with sanitizers loops are not vectorised
#endif

constexpr int64_t kLines = 16;          // signals at a time: a cache line of floats
constexpr int64_t kElements = 1 << 15;  // elements at a time, so that they stay in the second-level
                                        // cache
constexpr int64_t kLongSignal = 1 << 10;  // elements from which signals are faster one by one, in
                                          // vectors along the signal
constexpr int64_t kSerial = 1 << 14;      // elements that do not justify a second thread

/// The signals of a tensor [outer, n, inner]; elements are T or pairs of T.
struct Lines {
  int64_t outer, n, inner;

  int64_t count() const { return outer * inner; }
  /// Returns the offset of signal i; its elements have stride `inner`.
  int64_t start(int64_t i) const { return i / inner * n * inner + i % inner; }
};

/// Signals that are transformed together. In the buffer, element j of signal i has index
/// j * width + i; the lanes from `lines` to `width` are zero.
struct SignalGroup {
  int64_t first, lines, width;

  bool is_single() const { return width == 1; }
};

// Loops over the elements of a single contiguous signal, in vectors.

/// Separates `count` pairs.
template <typename T>
void split_pairs(const T* from, int64_t count, Signals<T> into) {
  T* __restrict re = into.re, * __restrict im = into.im;
#pragma omp simd
  for (int64_t j = 0; j < count; ++j) re[j] = from[2 * j], im[j] = from[2 * j + 1];
}

/// Joins `count` pairs, multiplied by the factor.
template <typename T>
void join_pairs(Signals<T> from, int64_t count, T factor, T* __restrict to) {
  const T *re = from.re, *im = from.im;
#pragma omp simd
  for (int64_t j = 0; j < count; ++j) to[2 * j] = re[j] * factor, to[2 * j + 1] = im[j] * factor;
}

/// Calls f(i, j, offset of signal first + i) for elements begin <= j < count of a group of signals,
/// in an order that accesses memory in contiguous pieces: adjacent signals together, others a few
/// elements at a time.
template <typename F>
void for_each_signal_element(const Lines& at, const SignalGroup& group, int64_t begin,
                             int64_t count, const F& f) {
  const int64_t lines = group.lines, start = at.start(group.first);
  if (at.inner > 1 && group.first % at.inner + lines <= at.inner) {
    for (int64_t j = begin; j < count; ++j)
#pragma omp simd
      for (int64_t i = 0; i < lines; ++i) f(i, j, start + i);
    return;
  }
  std::array<int64_t, kLines> starts;
  for (int64_t i = 0; i < lines; ++i) starts[size_t(i)] = at.start(group.first + i);
  if (at.inner > 1) {
    for (int64_t j = begin; j < count; ++j)
      for (int64_t i = 0; i < lines; ++i) f(i, j, starts[size_t(i)]);
    return;
  }
  constexpr int64_t kPiece = 8;
  for (int64_t from = begin; from < count; from += kPiece)
    for (int64_t i = 0; i < lines; ++i)
      for (int64_t j = from; j < std::min(from + kPiece, count); ++j) f(i, j, starts[size_t(i)]);
}

constexpr int kSide = int(kLanes<float>);  // lines that a register holds

/// Calls tile(first line, first element) for the squares of kSide numbers that pairs of contiguous
/// float signals consist of. Returns the number of elements that they cover.
template <typename T, typename Tile>
int64_t for_each_square(const Lines& at, const SignalGroup& group, int64_t count,
                        const Tile& tile) {
  if (!std::is_same_v<T, float> || at.inner != 1 || group.lines % kSide != 0) return 0;
  const int64_t covered = count - count % (kSide / 2);
  for (int64_t j = 0; j < covered; j += kSide / 2)
    for (int64_t i = 0; i < group.lines; i += kSide) tile(i, j);
  return covered;
}

/// Reads pairs: element j of signal i of the group consists of the numbers 2 j and 2 j + 1 of a
/// signal at from + scale * start.
template <typename T>
void read_pairs(const Lines& at, int64_t scale, const SignalGroup& group, int64_t count,
                const T* from, Signals<T> into) {
  const int64_t width = group.width;
  if (at.inner == 1 && group.is_single())
    return split_pairs(from + scale * group.first * at.n, count, into);
  const int64_t covered = for_each_square<T>(at, group, count, [&](int64_t i, int64_t j) {
    if constexpr (std::is_same_v<T, float>) {
      FloatVector rows[kSide];
      unrolled<kSide>([&](auto l) {
        const float* line = from + scale * (group.first + i + l()) * at.n + 2 * j;
        std::memcpy(&rows[l()], line, sizeof(rows[l()]));
      });
      transpose(rows);
      unrolled<kSide>([&](auto l) {
        float* to = (l() % 2 == 0 ? into.re : into.im) + (j + l() / 2) * width + i;
        std::memcpy(to, &rows[l()], sizeof(rows[l()]));
      });
    }
  });
  for_each_signal_element(at, group, covered, count, [=](int64_t i, int64_t j, int64_t start) {
    const T* element = from + scale * start + 2 * j * at.inner;
    into.re[j * width + i] = element[0];
    into.im[j * width + i] = element[scale == 2 ? 1 : at.inner];
  });
}

/// Writes pairs to the same places. value(j, load) returns both numbers of element j for the lines
/// that load(x + j * width) returns from an array x.
template <typename T, typename Value>
void write_pairs(const Lines& at, int64_t scale, const SignalGroup& group, int64_t count, T factor,
                 T* to, const Value& value) {
  const int64_t covered = for_each_square<T>(at, group, count, [&](int64_t i, int64_t j) {
    if constexpr (std::is_same_v<T, float>) {
      FloatVector rows[kSide];
      unrolled<kSide / 2>([&](auto p) {
        const auto [a, b] =
            value(j + p(), [&](const float* x) { return Batch<float>::load_unaligned(x + i); });
        rows[2 * p()] = (a * Batch<float>(factor)).data;
        rows[2 * p() + 1] = (b * Batch<float>(factor)).data;
      });
      transpose(rows);
      unrolled<kSide>([&](auto l) {
        float* line = to + scale * (group.first + i + l()) * at.n + 2 * j;
        std::memcpy(line, &rows[l()], sizeof(rows[l()]));
      });
    }
  });
  for_each_signal_element(at, group, covered, count, [=](int64_t i, int64_t j, int64_t start) {
    const auto [a, b] = value(j, [=](const T* x) { return x[i]; });
    T* element = to + scale * start + 2 * j * at.inner;
    element[0] = a * factor;
    element[scale == 2 ? 1 : at.inner] = b * factor;
  });
}

/// Calls gather(group, x), the plan and scatter(group, y) for every group. x has room for one
/// element more than the plan's length. With `inverse` the exponent is positive.
template <typename T, typename Gather, typename Scatter>
void transform(const FftPlan<T>& plan, const Lines& at, bool inverse, const Gather& gather,
               const Scatter& scatter) {
  const int64_t n = plan.length(), count = at.count();
  // Whole vectors: loops over the rest of a vector take longer than the vector.
  const auto whole = [](int64_t lines) {
    return 4 * lines > kLanes<T> ? (lines + kLanes<T> - 1) / kLanes<T> * kLanes<T> : lines;
  };
  const int64_t some = std::clamp<int64_t>(kElements / n, 1, kLines);
  const bool one_by_one =
      at.inner == 1 && plan.takes_single() && (count < kLines || n >= kLongSignal);
  const int64_t lines = one_by_one ? 1 : std::min(count, whole(some)), width = whole(lines);
  const int64_t groups = (count + lines - 1) / lines;
  const int threads =
      count * n < kSerial ? 1 : int(std::min<int64_t>(groups, omp_get_max_threads()));
  const int64_t each = width * (2 * (n + 1) + plan.workspace());
  const Tensor memory = Tensor::empty({threads, each}, kDTypeOf<T>);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int64_t i = 0; i < groups; ++i) {
    T* own = memory.data<T>() + omp_get_thread_num() * each;
    const SignalGroup group{i * lines, std::min(lines, count - i * lines), width};
    Signals<T> x{own, own + (n + 1) * width};
    if (group.lines < width) std::fill_n(own, 2 * (n + 1) * width, T(0));
    gather(group, x);
    if (inverse) std::swap(x.re, x.im);
    Signals<T> y = plan.run(x, width, own + 2 * (n + 1) * width);
    if (inverse) std::swap(y.re, y.im);
    scatter(group, y);
  }
}

template <typename T>
void complex_transform(const Tensor& x, bool inverse, double scale, Tensor& y) {
  const Lines at{x.shape()[0], x.shape()[1], x.shape()[2] / 2};
  const auto plan = FftPlan<T>::of(at.n);
  const T* from = x.data<T>();
  T* to = y.data<T>();
  const auto gather = [&](const SignalGroup& group, Signals<T> into) {
    read_pairs(at, 2, group, at.n, from, into);
  };
  const auto scatter = [&](const SignalGroup& group, Signals<T> out) {
    const int64_t width = group.width;
    if (at.inner == 1 && group.is_single())
      return join_pairs(out, at.n, T(scale), to + 2 * group.first * at.n);
    write_pairs(at, 2, group, at.n, T(scale), to, [=](int64_t j, const auto& load) {
      return std::pair(load(out.re + j * width), load(out.im + j * width));
    });
  };
  transform(*plan, at, inverse, gather, scatter);
}

// An even number of samples is transformed as half as many complex numbers: even samples are the
// real parts, odd samples the imaginary parts. The result is Z = E + i O, where E and O, the
// transforms of the even and odd samples, are the symmetric and antisymmetric parts of Z; X[k] =
// E[k] + w^k O[k]. An odd number of samples is transformed as complex numbers.

/// Writes the frequencies of a real signal, given the transform of half as many complex numbers.
/// Only adds products: g++ 12 fuses multiplications with alternate additions and subtractions,
/// -ffp-contract=off notwithstanding, which would round unlike the transform of a group.
template <typename T>
void write_half_spectrum(Signals<T> z, const std::complex<T>* roots, int64_t half, T factor, T ends,
                         T* __restrict to) {
  const T *re = z.re, *im = z.im, *w = reinterpret_cast<const T*>(roots);
#pragma omp simd
  for (int64_t k = 1; k < half; ++k) {
    const T other_r = re[half - k], other_i = im[half - k];
    const T even_r = (re[k] + other_r) * T(0.5), even_i = (im[k] - other_i) * T(0.5);
    const T odd_r = (im[k] + other_i) * T(0.5), odd_i = (other_r - re[k]) * T(0.5);
    const T minus_odd_i = (re[k] - other_r) * T(0.5);
    to[2 * k] = (even_r + (odd_r * w[2 * k] + minus_odd_i * w[2 * k + 1])) * factor;
    to[2 * k + 1] = (even_i + (odd_r * w[2 * k + 1] + odd_i * w[2 * k])) * factor;
  }
  to[0] = (re[0] + im[0]) * ends * factor;
  to[2 * half] = (re[0] - im[0]) * ends * factor;
  to[1] = to[2 * half + 1] = T(0);
}

template <typename T>
void real_transform(const Tensor& x, double scale, double ends, Tensor& y) {
  const Lines at{x.shape()[0], x.shape()[1], x.shape()[2]};
  const int64_t m = at.n / 2 + 1, half = at.n / 2;
  const Lines result{at.outer, m, at.inner};
  const bool even = at.n % 2 == 0;
  const auto plan = FftPlan<T>::of(even ? half : at.n);
  const std::complex<T>* roots = even ? plan->half_steps().data() : nullptr;
  const T* from = x.data<T>();
  T* to = y.data<T>();
  const auto gather = [&](const SignalGroup& group, Signals<T> into) {
    if (even) return read_pairs(at, 1, group, half, from, into);
    for_each_signal_element(at, group, 0, at.n,
                            [=, width = group.width](int64_t i, int64_t j, int64_t start) {
                              into.re[j * width + i] = from[start + j * at.inner];
                              into.im[j * width + i] = T(0);
                            });
  };
  const auto scatter = [&](const SignalGroup& group, Signals<T> out) {
    const int64_t width = group.width;
    if (even && at.inner == 1 && group.is_single())
      return write_half_spectrum(out, roots, half, T(scale), T(ends), to + 2 * group.first * m);
    write_pairs(result, 2, group, m, T(scale), to, [=](int64_t k, const auto& load) {
      const bool at_end = k == 0 || (even && k == half);  // the mirror image of both is element 0
      const int64_t here = (at_end ? 0 : k) * width;
      auto re = load(out.re + here), im = load(out.im + here);
      using V = decltype(re);
      if (even) {
        const int64_t mirror = (at_end ? 0 : half - k) * width;
        const V other_r = load(out.re + mirror), other_i = load(out.im + mirror);
        const V a_half(T(0.5));
        const V even_r = (re + other_r) * a_half, even_i = (im - other_i) * a_half;
        const V odd_r = (im + other_i) * a_half, odd_i = (other_r - re) * a_half;
        const V w_r(roots[k].real()), w_i(roots[k].imag());
        re = even_r + (odd_r * w_r - odd_i * w_i);
        im = even_i + (odd_r * w_i + odd_i * w_r);
      }
      if (at_end) re = re * V(T(ends)), im = V(T(0));
      return std::pair(re, im);
    });
  };
  transform(*plan, at, /*inverse=*/false, gather, scatter);
}

/// Replaces the frequencies X[0] ... X[half] of real signals by the transform of half as many
/// complex numbers, whose inverse transform is the signals. k and half - k need each other's
/// frequencies.
template <typename T>
void join_halves(const std::complex<T>* roots, int64_t half, int64_t width, Signals<T> x) {
  std::fill_n(x.im, width, T(0));
  std::fill_n(x.im + half * width, width, T(0));
  for (int64_t k = 0; 2 * k <= half; ++k) {
    T *low_r = x.re + k * width, *low_i = x.im + k * width;
    T *high_r = x.re + (half - k) * width, *high_i = x.im + (half - k) * width;
    const std::complex<T> w = roots[k];  // roots[half - k] is -conj(w)
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      const T even_r = low_r[i] + high_r[i], even_i = low_i[i] - high_i[i];
      const T rest_r = low_r[i] - high_r[i], rest_i = low_i[i] + high_i[i];
      const T odd_r = rest_i * w.real() - rest_r * w.imag();
      const T odd_i = rest_r * w.real() + rest_i * w.imag();
      high_r[i] = even_r + odd_r, high_i[i] = odd_i - even_i;
      low_r[i] = even_r - odd_r, low_i[i] = even_i + odd_i;
    }
  }
}

/// join_halves() for a single signal, in vectors of frequencies.
template <typename T>
void join_halves_of_single(const std::complex<T>* roots, int64_t half, Signals<T> x) {
  T *re = x.re, *im = x.im;
  const T* w = reinterpret_cast<const T*>(roots);
  im[0] = im[half] = T(0);
#pragma omp simd
  for (int64_t k = 0; k <= half / 2; ++k) {
    const int64_t l = half - k;  // may be k, whose results are stored last
    const T even_r = re[k] + re[l], even_i = im[k] - im[l];
    const T rest_r = re[k] - re[l], rest_i = im[k] + im[l];
    const T odd_r = rest_i * w[2 * k] - rest_r * w[2 * k + 1];
    const T odd_i = rest_r * w[2 * k] + rest_i * w[2 * k + 1];
    re[l] = even_r + odd_r, im[l] = odd_i - even_i;
    re[k] = even_r - odd_r, im[k] = even_i + odd_i;
  }
}

template <typename T>
void inverse_real_transform(const Tensor& x, double scale, double ends, Tensor& y) {
  const Lines at{y.shape()[0], y.shape()[1], y.shape()[2]};
  const int64_t m = at.n / 2 + 1, half = at.n / 2;
  const Lines given{at.outer, m, at.inner};
  const bool even = at.n % 2 == 0;
  const auto plan = FftPlan<T>::of(even ? half : at.n);
  const std::complex<T>* roots = even ? plan->half_steps().data() : nullptr;
  const T *from = x.data<T>(), factor = T(scale);
  T* to = y.data<T>();
  const auto gather = [&](const SignalGroup& group, Signals<T> into) {
    const int64_t width = group.width;
    read_pairs(given, 2, group, m, from, into);
    for (int64_t i = 0; ends != 1 && i < width; ++i) {
      into.re[i] *= T(ends);
      if (even) into.re[half * width + i] *= T(ends);
    }
    if (even)
      return group.is_single() ? join_halves_of_single(roots, half, into)
                               : join_halves(roots, half, width, into);
    std::fill_n(into.im, width, T(0));
    for (int64_t k = m; k < at.n; ++k)
      for (int64_t i = 0; i < width; ++i) {
        into.re[k * width + i] = into.re[(at.n - k) * width + i];
        into.im[k * width + i] = -into.im[(at.n - k) * width + i];
      }
  };
  const auto scatter = [&](const SignalGroup& group, Signals<T> out) {
    const int64_t width = group.width;
    if (even && at.inner == 1 && group.is_single())
      return join_pairs(out, half, factor, to + group.first * at.n);
    if (even)
      return write_pairs(at, 1, group, half, factor, to, [=](int64_t j, const auto& load) {
        return std::pair(load(out.re + j * width), load(out.im + j * width));
      });
    for_each_signal_element(at, group, 0, at.n, [=](int64_t i, int64_t j, int64_t start) {
      to[start + j * at.inner] = out.re[j * width + i] * factor;
    });
  };
  transform(*plan, at, /*inverse=*/true, gather, scatter);
}

constexpr TypeList<float, double> kRealTypes{};

}  // namespace

void register_fft() {
  set<kernels::fft>(kRealTypes,
                    []<typename T>(TypeTag<T>, auto&... a) { complex_transform<T>(a...); });
  set<kernels::rfft>(kRealTypes,
                     []<typename T>(TypeTag<T>, auto&... a) { real_transform<T>(a...); });
  set<kernels::irfft>(kRealTypes,
                      []<typename T>(TypeTag<T>, auto&... a) { inverse_real_transform<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
