// Fourier transforms along one dimension. A few signals at a time are gathered into a buffer of the
// thread, with separate real and imaginary parts, transformed, and scattered to the result.
#include <algorithm>
#include <array>
#include <utility>

#include <omp.h>

#include "backends/cpu/register.h"
#include "backends/cpu/tools/fft_plan.h"
#include "ops/fft.h"

namespace tapegrad::backends::cpu {
namespace {

constexpr int64_t kLines = 16;          // signals at a time: a cache line of floats
constexpr int64_t kElements = 1 << 12;  // elements at a time, so that they stay in the first-level
                                        // cache
constexpr int64_t kSerial = 1 << 14;    // elements that do not justify a second thread

/// The signals of a tensor [outer, n, inner]; elements are T or pairs of T.
struct Lines {
  int64_t outer, n, inner;

  int64_t count() const { return outer * inner; }
  /// The offset of signal i; its elements have stride `inner`.
  int64_t start(int64_t i) const { return i / inner * n * inner + i % inner; }
};

/// Calls f(i, j, offset of signal first + i) for elements j < count of a group of signals, in an
/// order that accesses memory in contiguous pieces: adjacent signals together, others a few
/// elements at a time.
template <typename F>
void for_each_element(const Lines& at, int64_t first, int64_t lines, int64_t count, const F& f) {
  std::array<int64_t, kLines> starts;
  for (int64_t i = 0; i < lines; ++i) starts[size_t(i)] = at.start(first + i);
  if (at.inner > 1) {
    for (int64_t j = 0; j < count; ++j)
      for (int64_t i = 0; i < lines; ++i) f(i, j, starts[size_t(i)]);
    return;
  }
  constexpr int64_t kPiece = 8;
  for (int64_t from = 0; from < count; from += kPiece)
    for (int64_t i = 0; i < lines; ++i)
      for (int64_t j = from; j < std::min(from + kPiece, count); ++j) f(i, j, starts[size_t(i)]);
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
  const T *from = x.data<T>(), factor = T(scale);
  T* to = y.data<T>();
  const auto gather = [&](int64_t first, int64_t lines, Signals<T> into) {
    for_each_element(at, first, lines, at.n, [&](int64_t i, int64_t j, int64_t start) {
      const T* element = from + 2 * (start + j * at.inner);
      into.re[j * lines + i] = element[0];
      into.im[j * lines + i] = element[1];
    });
  };
  const auto scatter = [&](int64_t first, int64_t lines, Signals<T> out) {
    for_each_element(at, first, lines, at.n, [&](int64_t i, int64_t j, int64_t start) {
      T* element = to + 2 * (start + j * at.inner);
      element[0] = out.re[j * lines + i] * factor;
      element[1] = out.im[j * lines + i] * factor;
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
  const T *from = x.data<T>(), factor = T(scale);
  T* to = y.data<T>();
  const auto gather = [&](int64_t first, int64_t lines, Signals<T> into) {
    for_each_element(at, first, lines, plan->length(), [&](int64_t i, int64_t j, int64_t start) {
      const T* sample = from + start + (even ? 2 * j : j) * at.inner;
      into.re[j * lines + i] = sample[0];
      into.im[j * lines + i] = even ? sample[at.inner] : T(0);
    });
  };
  const auto scatter = [&](int64_t first, int64_t lines, Signals<T> out) {
    for_each_element(result, first, lines, m, [&](int64_t i, int64_t k, int64_t start) {
      const int64_t here = k % plan->length() * lines + i;
      T re = out.re[here], im = out.im[here];
      if (even) {
        const int64_t mirror = (half - k) % half * lines + i;
        const T even_r = (re + out.re[mirror]) / 2, even_i = (im - out.im[mirror]) / 2;
        const T odd_r = (im + out.im[mirror]) / 2, odd_i = (out.re[mirror] - re) / 2;
        const std::complex<T> w = roots[k];
        re = even_r + (odd_r * w.real() - odd_i * w.imag());
        im = even_i + (odd_r * w.imag() + odd_i * w.real());
      }
      const bool is_real = k == 0 || (even && k == half);
      T* element = to + 2 * (start + k * at.inner);
      element[0] = re * factor;
      element[1] = is_real ? T(0) : im * factor;
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
    for_each_element(given, first, lines, plan->length(), [&](int64_t i, int64_t k, int64_t start) {
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
    for_each_element(at, first, lines, plan->length(), [&](int64_t i, int64_t j, int64_t start) {
      T* sample = to + start + (even ? 2 * j : j) * at.inner;
      sample[0] = out.re[j * lines + i] * factor;
      if (even) sample[at.inner] = out.im[j * lines + i] * factor;
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
