// Fourier transforms along one dimension. A few signals at a time are gathered into a buffer of the
// thread, with separate real and imaginary parts, transformed, and scattered to the result.
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

constexpr int64_t kLines = 16;          // signals at a time: a cache line of floats
constexpr int64_t kElements = 1 << 15;  // elements at a time, so that they stay in the second-level
                                        // cache
constexpr int64_t kSerial = 1 << 14;    // elements that do not justify a second thread

/// The signals of a tensor [outer, n, inner]; elements are T or pairs of T.
struct Lines {
  int64_t outer, n, inner;

  int64_t count() const { return outer * inner; }
  /// The offset of signal i; its elements have stride `inner`.
  int64_t start(int64_t i) const { return i / inner * n * inner + i % inner; }
};

/// Calls f(i, j, offset of signal first + i) for elements begin <= j < count of a group of signals,
/// in an order that accesses memory in contiguous pieces: adjacent signals together, others a few
/// elements at a time.
template <typename F>
void for_each_element(const Lines& at, int64_t first, int64_t lines, int64_t begin, int64_t count,
                      const F& f) {
  std::array<int64_t, kLines> starts;
  for (int64_t i = 0; i < lines; ++i) starts[size_t(i)] = at.start(first + i);
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
int64_t for_each_square(const Lines& at, int64_t lines, int64_t count, const Tile& tile) {
  if (!std::is_same_v<T, float> || at.inner != 1 || lines % kSide != 0) return 0;
  const int64_t covered = count - count % (kSide / 2);
  for (int64_t j = 0; j < covered; j += kSide / 2)
    for (int64_t i = 0; i < lines; i += kSide) tile(i, j);
  return covered;
}

/// Reads pairs: element j of signal i of the group consists of the numbers 2 j and 2 j + 1 of a
/// signal at from + scale * start.
template <typename T>
void read_pairs(const Lines& at, int64_t scale, int64_t first, int64_t lines, int64_t count,
                const T* from, Signals<T> into) {
  const int64_t covered = for_each_square<T>(at, lines, count, [&](int64_t i, int64_t j) {
    if constexpr (std::is_same_v<T, float>) {
      FloatVector rows[kSide];
      unrolled<kSide>([&](auto l) {
        const float* line = from + scale * (first + i + l()) * at.n + 2 * j;
        std::memcpy(&rows[l()], line, sizeof(rows[l()]));
      });
      transpose(rows);
      unrolled<kSide>([&](auto l) {
        float* to = (l() % 2 == 0 ? into.re : into.im) + (j + l() / 2) * lines + i;
        std::memcpy(to, &rows[l()], sizeof(rows[l()]));
      });
    }
  });
  for_each_element(at, first, lines, covered, count, [&](int64_t i, int64_t j, int64_t start) {
    const T* element = from + scale * start + 2 * j * at.inner;
    into.re[j * lines + i] = element[0];
    into.im[j * lines + i] = element[scale == 2 ? 1 : at.inner];
  });
}

/// Writes pairs to the same places. value(j, load) returns both numbers of element j for the lines
/// that load(x + j * lines) returns from an array x.
template <typename T, typename Value>
void write_pairs(const Lines& at, int64_t scale, int64_t first, int64_t lines, int64_t count,
                 T factor, T* to, const Value& value) {
  const int64_t covered = for_each_square<T>(at, lines, count, [&](int64_t i, int64_t j) {
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
        float* line = to + scale * (first + i + l()) * at.n + 2 * j;
        std::memcpy(line, &rows[l()], sizeof(rows[l()]));
      });
    }
  });
  for_each_element(at, first, lines, covered, count, [&](int64_t i, int64_t j, int64_t start) {
    const auto [a, b] = value(j, [&](const T* x) { return x[i]; });
    T* element = to + scale * start + 2 * j * at.inner;
    element[0] = a * factor;
    element[scale == 2 ? 1 : at.inner] = b * factor;
  });
}

/// Calls gather(first, lines, x), the plan and scatter(first, lines, y) for every group. With
/// `inverse` the exponent is positive.
template <typename T, typename Gather, typename Scatter>
void transform(const FftPlan<T>& plan, int64_t count, bool inverse, const Gather& gather,
               const Scatter& scatter) {
  const int64_t n = plan.length();
  const int64_t lines = std::clamp<int64_t>(kElements / n, 1, std::min(kLines, count));
  const int64_t groups = (count + lines - 1) / lines;
  const int threads =
      count * n < kSerial ? 1 : int(std::min<int64_t>(groups, omp_get_max_threads()));
  const int64_t each = lines * (2 * n + plan.workspace());
  const Tensor memory = Tensor::empty({threads, each}, kDTypeOf<T>);
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
  for (int64_t group = 0; group < groups; ++group) {
    T* own = memory.data<T>() + omp_get_thread_num() * each;
    const int64_t first = group * lines, now = std::min(lines, count - first);
    Signals<T> x{own, own + n * now};
    gather(first, now, x);
    if (inverse) std::swap(x.re, x.im);
    Signals<T> y = plan.run(x, now, own + 2 * n * now);
    if (inverse) std::swap(y.re, y.im);
    scatter(first, now, y);
  }
}

template <typename T>
void complex_transform(const Tensor& x, bool inverse, double scale, Tensor& y) {
  const Lines at{x.shape()[0], x.shape()[1], x.shape()[2] / 2};
  const auto plan = FftPlan<T>::of(at.n);
  const T* from = x.data<T>();
  T* to = y.data<T>();
  const auto gather = [&](int64_t first, int64_t lines, Signals<T> into) {
    read_pairs(at, 2, first, lines, at.n, from, into);
  };
  const auto scatter = [&](int64_t first, int64_t lines, Signals<T> out) {
    write_pairs(at, 2, first, lines, at.n, T(scale), to, [&](int64_t j, const auto& load) {
      return std::pair(load(out.re + j * lines), load(out.im + j * lines));
    });
  };
  transform(*plan, at.count(), inverse, gather, scatter);
}

// An even number of samples is transformed as half as many complex numbers: even samples are the
// real parts, odd samples the imaginary parts. The result is Z = E + i O, where E and O, the
// transforms of the even and odd samples, are the symmetric and antisymmetric parts of Z; X[k] =
// E[k] + w^k O[k]. An odd number of samples is transformed as complex numbers.

template <typename T>
void real_transform(const Tensor& x, double scale, Tensor& y) {
  const Lines at{x.shape()[0], x.shape()[1], x.shape()[2]};
  const int64_t m = at.n / 2 + 1, half = at.n / 2;
  const Lines result{at.outer, m, at.inner};
  const bool even = at.n % 2 == 0;
  const auto plan = FftPlan<T>::of(even ? half : at.n);
  const std::complex<T>* roots = even ? plan->half_steps().data() : nullptr;
  const T* from = x.data<T>();
  T* to = y.data<T>();
  const auto gather = [&](int64_t first, int64_t lines, Signals<T> into) {
    if (even) return read_pairs(at, 1, first, lines, half, from, into);
    for_each_element(at, first, lines, 0, at.n, [&](int64_t i, int64_t j, int64_t start) {
      into.re[j * lines + i] = from[start + j * at.inner];
      into.im[j * lines + i] = T(0);
    });
  };
  const auto scatter = [&](int64_t first, int64_t lines, Signals<T> out) {
    write_pairs(result, 2, first, lines, m, T(scale), to, [&](int64_t k, const auto& load) {
      const int64_t here = k % plan->length() * lines;
      auto re = load(out.re + here), im = load(out.im + here);
      using V = decltype(re);
      if (even) {
        const int64_t mirror = (half - k) % half * lines;
        const V other_r = load(out.re + mirror), other_i = load(out.im + mirror);
        const V a_half(T(0.5));
        const V even_r = (re + other_r) * a_half, even_i = (im - other_i) * a_half;
        const V odd_r = (im + other_i) * a_half, odd_i = (other_r - re) * a_half;
        const V w_r(roots[k].real()), w_i(roots[k].imag());
        re = even_r + (odd_r * w_r - odd_i * w_i);
        im = even_i + (odd_r * w_i + odd_i * w_r);
      }
      if (k == 0 || (even && k == half)) im = V(T(0));
      return std::pair(re, im);
    });
  };
  transform(*plan, at.count(), /*inverse=*/false, gather, scatter);
}

template <typename T>
void inverse_real_transform(const Tensor& x, double scale, Tensor& y) {
  const Lines at{y.shape()[0], y.shape()[1], y.shape()[2]};
  const int64_t m = at.n / 2 + 1, half = at.n / 2;
  const Lines given{at.outer, m, at.inner};
  const bool even = at.n % 2 == 0;
  const auto plan = FftPlan<T>::of(even ? half : at.n);
  const std::complex<T>* roots = even ? plan->half_steps().data() : nullptr;
  const T *from = x.data<T>(), factor = T(scale);
  T* to = y.data<T>();
  const auto gather = [&](int64_t first, int64_t lines, Signals<T> into) {
    for_each_element(
        given, first, lines, 0, plan->length(), [&](int64_t i, int64_t k, int64_t start) {
          const auto frequency = [&](int64_t k) {
            const bool is_real = k == 0 || (even && k == half);
            const T* element = from + 2 * (start + k * at.inner);
            return std::complex<T>(element[0], is_real ? T(0) : element[1]);
          };
          if (even) {
            const std::complex<T> a = frequency(k), b = frequency(half - k), w = roots[k];
            const T even_r = a.real() + b.real(), even_i = a.imag() - b.imag();
            const T rest_r = a.real() - b.real(), rest_i = a.imag() + b.imag();
            const T odd_r = rest_r * w.real() + rest_i * w.imag();
            const T odd_i = rest_i * w.real() - rest_r * w.imag();
            into.re[k * lines + i] = even_r - odd_i;
            into.im[k * lines + i] = even_i + odd_r;
          } else {
            const std::complex<T> a = frequency(std::min(k, at.n - k));
            into.re[k * lines + i] = a.real();
            into.im[k * lines + i] = k < m ? a.imag() : -a.imag();
          }
        });
  };
  const auto scatter = [&](int64_t first, int64_t lines, Signals<T> out) {
    if (even)
      return write_pairs(at, 1, first, lines, half, factor, to, [&](int64_t j, const auto& load) {
        return std::pair(load(out.re + j * lines), load(out.im + j * lines));
      });
    for_each_element(at, first, lines, 0, at.n, [&](int64_t i, int64_t j, int64_t start) {
      to[start + j * at.inner] = out.re[j * lines + i] * factor;
    });
  };
  transform(*plan, at.count(), /*inverse=*/true, gather, scatter);
}

constexpr TypeList<float, double> kRealTypes{};

}  // namespace

void register_fft() {
  set<kernels::fft>(kRealTypes,
                    []<typename T>(Type<T>, auto&... a) { complex_transform<T>(a...); });
  set<kernels::rfft>(kRealTypes, []<typename T>(Type<T>, auto&... a) { real_transform<T>(a...); });
  set<kernels::irfft>(kRealTypes,
                      []<typename T>(Type<T>, auto&... a) { inverse_real_transform<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
