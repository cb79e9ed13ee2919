#include "ops/signal_windows.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "ops/binary.h"
#include "ops/unary.h"
#include "ops/windows.h"

namespace tapegrad::windows {
namespace {

TensorOptions tensor_options(const Options& options) {
  return {.dtype = options.dtype, .device = options.device, .where = options.by_name.where};
}

/// Returns f(0), f(1), ... f(n - 1), where f maps a vector of float64.
template <typename F>
Variable window_of(int64_t n, const Options& options, F f) {
  const CallLine line(options.by_name.where);
  if (n < 0) fail<ArgumentError>("window: the length is negative: ", n);
  const Variable i = arange(0.0, double(n), 1.0, {.dtype = f64, .device = options.device});
  return f(i).to(options.dtype.value_or(default_dtype()));
}

double period_of(int64_t n, const Options& options) {
  return double(options.sym ? std::max<int64_t>(n - 1, 1) : n);
}

Variable sum_of_cosines(int64_t n, std::span<const double> a, const Options& options) {
  if (a.empty()) fail<ArgumentError>("general_cosine: no coefficients");
  if (n == 1) a = a.first(0);  // a window of one value is 1
  return window_of(n, options, [&](const Variable& i) {
    Variable y = i * 0.0 + (a.empty() ? 1.0 : a[0]);
    double sign = -1;
    for (size_t k = 1; k < a.size(); ++k, sign = -sign)
      y = y + sign * a[k] * cos(i * (2 * std::numbers::pi * double(k) / period_of(n, options)));
    return y;
  });
}

}  // namespace

Variable bartlett(int64_t n, const Options& options) {
  return bartlett_window(n, !options.sym, tensor_options(options));
}
Variable blackman(int64_t n, const Options& options) {
  return sum_of_cosines(n, std::initializer_list<double>{0.42, 0.5, 0.08}, options);
}
Variable cosine(int64_t n, const Options& options) {
  const double steps = double(n > 1 && !options.sym ? n + 1 : n);
  return window_of(n, options,
                   [&](const Variable& i) { return sin((i + 0.5) * (std::numbers::pi / steps)); });
}
Variable exponential(int64_t n, const Options& options) {
  if (!(options.tau > 0)) fail<ArgumentError>("exponential: tau ", options.tau, " is not positive");
  if (options.center && options.sym)
    fail<ArgumentError>("exponential: a symmetric window has its center in the middle");
  const double middle = n == 1 ? 0.0 : (options.sym ? double(n - 1) : double(n)) / 2;
  return window_of(n, options, [&](const Variable& i) {
    return exp(abs(i - options.center.value_or(middle)) * (-1 / options.tau));
  });
}
Variable gaussian(int64_t n, const Options& options) {
  if (!(options.std > 0)) fail<ArgumentError>("gaussian: std ", options.std, " is not positive");
  const double middle = n == 1 ? 0.0 : (options.sym ? double(n - 1) : double(n)) / 2;
  return window_of(n, options, [&](const Variable& i) {
    return exp(square((i - middle) * (1 / (options.std * std::numbers::sqrt2))) * -1.0);
  });
}
Variable general_cosine(int64_t n, std::initializer_list<double> a, const Options& options) {
  return sum_of_cosines(n, a, options);
}
Variable general_hamming(int64_t n, const Options& options) {
  return sum_of_cosines(n, std::initializer_list<double>{options.alpha, 1 - options.alpha},
                        options);
}
Variable hamming(int64_t n, const Options& options) {
  return sum_of_cosines(n, std::initializer_list<double>{0.54, 0.46}, options);
}
Variable hann(int64_t n, const Options& options) {
  return sum_of_cosines(n, std::initializer_list<double>{0.5, 0.5}, options);
}
Variable kaiser(int64_t n, const Options& options) {
  return kaiser_window(n, !options.sym, options.beta, tensor_options(options));
}
Variable nuttall(int64_t n, const Options& options) {
  return sum_of_cosines(
      n, std::initializer_list<double>{0.3635819, 0.4891775, 0.1365995, 0.0106411}, options);
}

}  // namespace tapegrad::windows
