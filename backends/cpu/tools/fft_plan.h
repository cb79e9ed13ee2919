// How a discrete Fourier transform of one length is computed, for many signals side by side.
//
// Own code, since no library that may be linked does it: FFTW is under the GPL, and of kissfft the
// distribution has float32 alone, where a prime length n takes n^2 steps.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace tapegrad::backends::cpu {

/// Element j of signal i lies at [j * lines + i], real and imaginary parts apart.
template <typename T>
struct Signals {
  T* re;
  T* im;
};

/// exp(-2 pi i k / n) for 0 <= k < n, each rounded once or nearly so.
class UnitRoots {
 public:
  explicit UnitRoots(int64_t n);
  std::complex<double> operator[](int64_t k) const;

 private:
  using Fine = std::complex<long double>;
  int64_t low_;  // k = high * low_ + low: two short tables, whose products are the roots
  std::vector<Fine> lows_, highs_;
};

/// n up to 2^32. A length whose prime factors are small is taken apart by Stockham's algorithm
/// (radices 4, 2, 3, 5 and the primes to 31); any other is a convolution of a length that is
/// (Bluestein 1970).
template <typename T>
class FftPlan {
 public:
  explicit FftPlan(int64_t n);

  /// The plan of n, kept for the next call.
  static std::shared_ptr<const FftPlan> of(int64_t n);

  int64_t length() const { return n_; }
  /// How many elements of T run() needs beside the signals, for each of the lines.
  int64_t workspace() const;
  /// Transforms all lines, with exp(-2 pi i j k / n) and no factor, and says where the result is:
  /// in x or in the workspace; both are overwritten. With real and imaginary parts exchanged, in x
  /// and in the result, the exponent is positive.
  Signals<T> run(Signals<T> x, int64_t lines, T* workspace) const;

  /// exp(-pi i k / n) for k <= n: for transforms of twice as many reals.
  const std::vector<std::complex<T>>& half_steps() const;

 private:
  struct Stage {
    int radix;
    int64_t parts, step;     // the length is radix * parts, behind `step` transforms of before
    std::vector<T> twiddle;  // of output k > 0 of part p: pairs at [p][k - 1]
    std::vector<T> roots;    // of radix itself, for the radices without a formula
  };

  void make_stages();
  void make_chirp();
  Signals<T> run_chirp(Signals<T> x, int64_t lines, T* workspace) const;

  int64_t n_;
  std::vector<Stage> stages_;
  std::shared_ptr<const FftPlan> convolution_;  // of Bluestein's algorithm, else empty
  std::vector<std::complex<T>> chirp_;          // exp(-pi i j^2 / n)
  std::vector<std::complex<T>> spectrum_;       // of its conjugate, divided by the length
  mutable std::once_flag has_half_steps_;
  mutable std::vector<std::complex<T>> half_steps_;
};

}  // namespace tapegrad::backends::cpu
