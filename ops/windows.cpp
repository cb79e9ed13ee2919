#include "ops/windows.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "ops/binary.h"
#include "ops/unary.h"

namespace tapegrad {

namespace {

/// Returns a0 - a1 cos(2 pi i / period) + a2 cos(4 pi i / period) for i < n.
Variable cosine_window(int64_t n, bool periodic, double a0, double a1, double a2,
                       const TensorOptions& options) {
  if (n < 0) fail<ArgumentError>("window: the length is negative: ", n);
  const double period = double(periodic || n == 1 ? n : n - 1);
  const TensorOptions wide{.dtype = f64, .device = options.device};
  const Variable angle = arange(0.0, double(n), 1.0, wide) * (2 * std::numbers::pi / period);
  Variable window = a0 - a1 * cos(angle) + a2 * cos(2 * angle);
  if (n == 1) window = ones({1}, wide);
  return window.to(options.dtype.value_or(default_dtype())).requires_grad_(options.requires_grad);
}

}  // namespace

Variable hann_window(int64_t n, bool periodic, TensorOptions options) {
  const ErrorLine line(options.where);
  return cosine_window(n, periodic, 0.5, 0.5, 0, options);
}
Variable hamming_window(int64_t n, bool periodic, TensorOptions options) {
  const ErrorLine line(options.where);
  return cosine_window(n, periodic, 0.54, 0.46, 0, options);
}
Variable blackman_window(int64_t n, bool periodic, TensorOptions options) {
  const ErrorLine line(options.where);
  return cosine_window(n, periodic, 0.42, 0.5, 0.08, options);
}
Variable kaiser_window(int64_t n, bool periodic, double beta, TensorOptions options) {
  const ErrorLine line(options.where);
  if (n < 0) fail<ArgumentError>("window: the length is negative: ", n);
  if (!(std::abs(beta) <= 700))  // the limit of I0 in double
    fail<ArgumentError>("kaiser_window: beta is ", beta, ", not within 700 of 0");
  if (n == 1) return ones({1}, options);
  const double half = double(periodic ? n : n - 1) / 2, size = std::abs(beta);
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) {
    const double t = (double(i) - half) / half;
    values.push_back(std::cyl_bessel_i(0.0, size * std::sqrt(std::max(0.0, 1 - t * t))) /
                     std::cyl_bessel_i(0.0, size));
  }
  const Variable window = tensor(values, {.dtype = f64, .device = options.device});
  return window.to(options.dtype.value_or(default_dtype())).requires_grad_(options.requires_grad);
}
Variable bartlett_window(int64_t n, bool periodic, TensorOptions options) {
  const ErrorLine line(options.where);
  if (n < 0) fail<ArgumentError>("window: the length is negative: ", n);
  if (n == 1) return ones({1}, options);
  const double half = double(periodic ? n : n - 1) / 2;
  const TensorOptions wide{.dtype = f64, .device = options.device};
  Variable window = 1 - abs(arange(0.0, double(n), 1.0, wide) / half - 1);
  return window.to(options.dtype.value_or(default_dtype())).requires_grad_(options.requires_grad);
}

Variable fft::fftfreq(int64_t n, double d, TensorOptions options) {
  const ErrorLine line(options.where);
  if (n < 1) fail<ArgumentError>("fft.fftfreq: n is ", n, ", not at least 1");
  const TensorOptions wide{.dtype = f64, .device = options.device};
  const Variable i = arange(0.0, double(n), 1.0, wide);
  const Variable half = tapegrad::where(i < double((n + 1) / 2), i, i - double(n));
  return (half / (double(n) * d)).to(options.dtype.value_or(default_dtype()));
}
Variable fft::rfftfreq(int64_t n, double d, TensorOptions options) {
  const ErrorLine line(options.where);
  if (n < 1) fail<ArgumentError>("fft.rfftfreq: n is ", n, ", not at least 1");
  const TensorOptions wide{.dtype = f64, .device = options.device};
  return (arange(0.0, double(n / 2 + 1), 1.0, wide) / (double(n) * d))
      .to(options.dtype.value_or(default_dtype()));
}

}  // namespace tapegrad
