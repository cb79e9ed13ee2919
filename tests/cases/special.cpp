#include <cmath>

#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

/// Returns the defining sum, with an integral for the tail: slow, and accurate to 1e-15 for n >= 2.
double polygamma_sum(int n, double x) {
  double sum = 0, factorial = 1;
  for (int i = 2; i <= n; ++i) factorial *= i;
  constexpr int kTerms = 200000;
  for (int k = kTerms - 1; k >= 0; --k) sum += std::pow(x + k, -n - 1);
  const double end = x + kTerms;
  sum += std::pow(end, -n) / n + std::pow(end, -n - 1) / 2 + (n + 1) * std::pow(end, -n - 2) / 12;
  return (n % 2 == 0 ? -1 : 1) * factorial * sum;
}

/// The series of P(a, x) with terms x^(a + n) / gamma(a + n + 1).
double gamma_sum(double a, double x) {
  double sum = 0;
  for (int n = 0; n < 40; ++n) sum += std::pow(x, a + n) / std::tgamma(a + n + 1);
  return sum * std::exp(-x);
}

/// The defining sum, with an integral for the tail.
double zeta_sum(double s, double q) {
  constexpr int kTerms = 2000;
  double sum = 0;
  for (int k = kTerms - 1; k >= 0; --k) sum += std::pow(q + k, -s);
  const double end = q + kTerms;
  return sum + std::pow(end, 1 - s) / (s - 1) + std::pow(end, -s) / 2 +
         s * std::pow(end, -s - 1) / 12;
}

/// psi(x) = psi(x + 1) - 1 / x until the asymptotic series is exact.
double digamma_sum(double x) {
  long double sum = 0, y = x;
  for (; y < 1000; ++y) sum -= 1 / y;
  return double(sum + std::log(y) - 1 / (2 * y) - 1 / (12 * y * y) + 1 / (120 * y * y * y * y));
}

/// Bisection of erf.
double erfinv_bisect(double x) {
  double low = -6, high = 6;
  for (int i = 0; i < 200; ++i) {
    const double middle = low + (high - low) / 2;
    (std::erf(middle) < x ? low : high) = middle;
  }
  return low;
}

}  // namespace

void special_cases(OpCases& cases) {
  const auto add = [&](const char* op, double (*f)(double), Fill fill = Fill::kNormal,
                       Attributes attributes = {}) {
    for (const Shape& shape : {Shape{3, 5}, Shape{}})
      cases.push_back({.op = op,
                       .inputs = {Input{shape, fill}},
                       .attributes = attributes,
                       .reference = elementwise(f),
                       .same_bits = true});
  };
  add("sinh", [](double x) { return (std::exp(x) - std::exp(-x)) / 2; });
  add("cosh", [](double x) { return (std::exp(x) + std::exp(-x)) / 2; });
  add(
      "asin", [](double x) { return std::asin(x); }, Fill::kUnit);
  add(
      "acos", [](double x) { return std::acos(x); }, Fill::kUnit);
  add("atan", [](double x) { return std::atan(x); });
  add("asinh", [](double x) { return std::asinh(x); });
  add(
      "acosh", [](double x) { return std::acosh(x); }, Fill::kAboveOne);
  add(
      "atanh", [](double x) { return std::atanh(x); }, Fill::kUnit);
  add("erfc", [](double x) { return std::erfc(x); });
  add("erfinv", erfinv_bisect, Fill::kUnit);
  add(
      "lgamma", [](double x) { return std::log(std::fabs(std::tgamma(x))); }, Fill::kPositive);
  add("digamma", digamma_sum, Fill::kPositive);
  for (int64_t n : {2, 3})
    add("polygamma",
        n == 2 ? [](double x) { return polygamma_sum(2, x); }
               : [](double x) { return polygamma_sum(3, x); },
        Fill::kPositive, {{"n", n}});
  add("i0", [](double x) { return std::cyl_bessel_i(0, std::fabs(x)); });
  add("i0e", [](double x) { return std::cyl_bessel_i(0, std::fabs(x)) * std::exp(-std::fabs(x)); });
  add("i1", [](double x) { return std::copysign(std::cyl_bessel_i(1, std::fabs(x)), x); });
  add("i1e", [](double x) {
    return std::copysign(std::cyl_bessel_i(1, std::fabs(x)) * std::exp(-std::fabs(x)), x);
  });
  const auto positive = [&](const char* op, double (*f)(double)) {
    add(op, f, Fill::kPositive);
    for (size_t i = cases.size() - 2; i < cases.size(); ++i)
      cases[i].tolerance = 8;  // the C++ library's K0(1.6) errs by 1.2e-15
  };
  add("bessel_j0", [](double x) { return std::cyl_bessel_j(0, std::fabs(x)); });
  add("bessel_j1", [](double x) { return std::copysign(std::cyl_bessel_j(1, std::fabs(x)), x); });
  positive("bessel_y0", [](double x) { return std::cyl_neumann(0, x); });
  positive("bessel_y1", [](double x) { return std::cyl_neumann(1, x); });
  positive("bessel_k0", [](double x) { return std::cyl_bessel_k(0, x); });
  positive("bessel_k0e", [](double x) { return std::cyl_bessel_k(0, x) * std::exp(x); });
  positive("bessel_k1", [](double x) { return std::cyl_bessel_k(1, x); });
  positive("bessel_k1e", [](double x) { return std::cyl_bessel_k(1, x) * std::exp(x); });
  add("erfcx", [](double x) { return std::exp(x * x) * std::erfc(x); });
  // y'' = x y, from y and y' at 0, by its Taylor series.
  add("airy_ai", [](double x) {
    double even = 1, odd = x, first = even, second = odd;
    for (int k = 1; k < 40; ++k) {
      even *= x * x * x / ((3 * k - 1) * (3 * k));
      odd *= x * x * x / ((3 * k) * (3 * k + 1));
      first += even;
      second += odd;
    }
    return first / (std::pow(3, 2 / 3.0) * std::tgamma(2 / 3.0)) -
           second / (std::cbrt(3) * std::tgamma(1 / 3.0));
  });
  // The first inputs have no second derivative, or no derivative.
  const auto two = [&](const char* op, Fill fill, double (*f)(double, double)) {
    for (const Shape& shape : {Shape{3, 5}, Shape{5}, Shape{}})
      cases.push_back({.op = op,
                       .inputs = {Input{{3, 5}, fill, 0, false}, Input{shape, Fill::kPositive}},
                       .reference = elementwise(f),
                       .same_bits = true});
  };
  two("igamma", Fill::kPositive, gamma_sum);
  two("igammac", Fill::kPositive, [](double a, double x) { return 1 - gamma_sum(a, x); });
  two("zeta", Fill::kAboveOne, zeta_sum);
  add("sinc", [](double x) { return std::sin(M_PI * x) / (M_PI * x); });
  add("frac", [](double x) { return x - std::trunc(x); });
  add("nan_to_num", [](double x) { return x; });
}

}  // namespace tapegrad::testing
