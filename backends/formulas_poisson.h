// Poisson-distributed numbers. All devices produce the same bits: see backends/formulas_random.h.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "backends/formulas_random.h"
#include "core/base/generator.h"

namespace tapegrad::formulas {

/// The random stream of one element, of any length. The upper half of the counter, which is 0 in
/// all other draws, separates it from other streams.
class ElementStream {
 public:
  TG_HD ElementStream(RandomState state, int64_t element)
      : state_(state), upper_(uint64_t(element + 1) << 16) {}

  /// Returns a number in [0, 1).
  TG_HD double next() {
    if (used_ == 4) {
      words_ = philox(state_.seed, state_.offset, upper_++);
      used_ = 0;
    }
    used_ += 2;
    return uniform_double(words_[size_t(used_ - 2)], words_[size_t(used_ - 1)]);
  }

 private:
  RandomState state_;
  uint64_t upper_;
  int used_ = 4;
  std::array<uint32_t, 4> words_{};
};

/// Returns log(k!) for a whole number k: a table below 10, Stirling's series (error below 1e-11)
/// from there.
TG_HD inline double log_factorial(double k) {
  constexpr double kTable[] = {0.0,
                               0.0,
                               0.6931471805599453,
                               1.791759469228055,
                               3.1780538303479458,
                               4.787491742782046,
                               6.579251212010101,
                               8.525161361065415,
                               10.604602902745251,
                               12.801827480081469};
  if (k < 10) return kTable[int(k)];
  constexpr double kHalfLogTwoPi = 0.9189385332046727;
  const double x = k + 1, z = 1 / (x * x);
  return (x - 0.5) * random_log(x) - x + kHalfLogTwoPi +
         (1.0 / 12 - (1.0 / 360 - (1.0 / 1260 - z / 1680) * z) * z) / x;
}

/// Returns a Poisson-distributed number. For a rate below 10, counts the arrivals of a Poisson
/// process before time `rate`, whose distances are exponential. For larger rates, uses transformed
/// rejection (Hoermann 1993, algorithm PTRS).
TG_HD inline double poisson(double rate, ElementStream stream) {
  if (rate < 10) {
    double count = 0;
    for (double time = -random_log(1 - stream.next()); time < rate;
         time -= random_log(1 - stream.next()))
      ++count;
    return count;
  }
  const double log_rate = random_log(rate);
  const double b = 0.931 + 2.53 * std::sqrt(rate), a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2);
  while (true) {
    const double u = stream.next() - 0.5, v = 1 - stream.next();  // v is in (0, 1]
    const double us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (random_log(v) + random_log(inverse_alpha) - random_log(a / (us * us) + b) <=
        k * log_rate - rate - log_factorial(k))
      return k;
  }
}

}  // namespace tapegrad::formulas
