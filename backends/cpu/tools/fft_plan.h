// Discrete Fourier transforms of one length, for many signals side by side.
//
// Implemented here because no library is suitable: FFTW has the GPL, and the distribution's kissfft
// supports float32 only and takes n^2 steps for a prime length n.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace tapegrad::backends::cpu {

/// Element j of signal i has index j * lines + i; real and imaginary parts are in separate arrays.
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
  int64_t low_;  // k = high * low_ + low: a root is the product of entries of two short tables
  std::vector<Fine> lows_, highs_;
};

/// Plan for lengths n up to 2^32. A length whose prime factors are at most 31 uses Stockham's
/// algorithm with radices 8, 4, 2, 3, 5 and the primes up to 31. Any other length becomes a
/// convolution of such a length (Bluestein 1970).
template <typename T>
class FftPlan {
 public:
  explicit FftPlan(int64_t n);

  /// Returns the plan of n from a cache.
  static std::shared_ptr<const FftPlan> of(int64_t n);

  int64_t length() const { return n_; }
  /// Whether run() uses whole vectors for a single line.
  bool takes_single() const { return !first_turns_.empty(); }
  /// Number of elements of T that run() needs as workspace, per line.
  int64_t workspace() const;
  /// Transforms all lines with exp(-2 pi i j k / n), without a scale factor. Returns the location
  /// of the result, which is x or the workspace; both are overwritten. Exchange real and imaginary
  /// parts, in x and in the result, for a positive exponent.
  Signals<T> run(Signals<T> x, int64_t lines, T* workspace) const;

  /// exp(-pi i k / n) for k <= n, for transforms of 2 n reals.
  const std::vector<std::complex<T>>& half_steps() const;

 private:
  struct Stage {
    int radix;
    int64_t parts, step;  // length of radix * parts, after previous stages of total length `step`
    std::vector<T> twiddle;  // factor of output k > 0 of part p, as pairs at [p][k - 1]
    std::vector<T> roots;    // roots of the radix itself, for radices without a formula
  };

  void make_stages();
  void make_chirp();
  Signals<T> run_chirp(Signals<T> x, int64_t lines, T* workspace) const;

  int64_t n_;
  std::vector<Stage> stages_;
  std::vector<T> first_turns_;  // twiddle of a first stage of radix 8 as arrays along the parts:
                                // the real and imaginary parts for k = 1, for k = 2, ...
  std::shared_ptr<const FftPlan> convolution_;  // Bluestein's convolution plan, else empty
  std::vector<std::complex<T>> chirp_;          // exp(-pi i j^2 / n)
  std::vector<std::complex<T>> spectrum_;       // transform of the conjugate chirp, divided by the
                                                // length
  mutable std::once_flag has_half_steps_;
  mutable std::vector<std::complex<T>> half_steps_;
};

}  // namespace tapegrad::backends::cpu
