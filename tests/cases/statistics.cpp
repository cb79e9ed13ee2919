#include <algorithm>
#include <cmath>

#include "tests/cases/op_case.h"
#include "tests/cases/references.h"

namespace tapegrad::testing {
namespace {

using Values = std::vector<double>;

/// Applies f to each row of a matrix.
Reference of_rows(double (*f)(const Values&)) {
  return [f](const std::vector<Array>& in) {
    const int64_t rows = in[0].shape[0], n = in[0].shape[1];
    Array y{{rows}, {}};
    for (int64_t i = 0; i < rows; ++i)
      y.values.push_back(
          f(Values(in[0].values.begin() + i * n, in[0].values.begin() + (i + 1) * n)));
    return y;
  };
}
Reference of_all(double (*f)(const Values&)) {
  return [f](const std::vector<Array>& in) { return Array{{}, {f(in[0].values)}}; };
}

double variance(const Values& x) {
  double sum = 0;
  for (double value : x) sum += (value - mean(x)) * (value - mean(x));
  return sum / double(x.size() - 1);
}
double deviation(const Values& x) { return std::sqrt(variance(x)); }
double median(Values x) {
  std::sort(x.begin(), x.end());
  return x[(x.size() - 1) / 2];
}
double first_quartile(Values x) {
  std::sort(x.begin(), x.end());
  const double rank = 0.25 * double(x.size() - 1), low = std::floor(rank);
  return x[size_t(low)] + (rank - low) * (x[size_t(std::ceil(rank))] - x[size_t(low)]);
}
double integral(const Values& y) {
  double sum = 0;
  for (size_t i = 1; i < y.size(); ++i) sum += (y[i - 1] + y[i]) / 2 * 0.5;
  return sum;
}
double nonzero(const Values& x) {
  double count = 0;
  for (double value : x) count += value != 0;
  return count;
}

/// Covariances of rows; in[1] and in[2] are weights of the observations.
Reference covariance(double correction, bool correlation = false) {
  return [=](const std::vector<Array>& in) {
    const int64_t v = in[0].shape.rank() == 2 ? in[0].shape[0] : 1;
    const int64_t n = in[0].shape[in[0].shape.rank() - 1];
    const auto weight = [&](size_t input, int64_t k) {
      return in.size() > input && !in[input].values.empty() ? in[input].values[size_t(k)] : 1.0;
    };
    double sum = 0, taken = 0;
    for (int64_t k = 0; k < n; ++k) {
      sum += weight(1, k) * weight(2, k);
      taken += weight(1, k) * weight(2, k) * weight(2, k);
    }
    const bool weighted = in.size() > 2 && !in[2].values.empty();
    const double divisor = sum - correction * (weighted ? taken / sum : 1.0);
    Values means(size_t(v), 0.0);
    for (int64_t i = 0; i < v; ++i)
      for (int64_t k = 0; k < n; ++k)
        means[size_t(i)] += in[0].values[size_t(i * n + k)] * weight(1, k) * weight(2, k) / sum;
    Array y{in[0].shape.rank() == 2 ? Shape{v, v} : Shape{}, {}};
    for (int64_t i = 0; i < v; ++i)
      for (int64_t j = 0; j < v; ++j) {
        double product = 0;
        for (int64_t k = 0; k < n; ++k)
          product += weight(1, k) * weight(2, k) *
                     (in[0].values[size_t(i * n + k)] - means[size_t(i)]) *
                     (in[0].values[size_t(j * n + k)] - means[size_t(j)]);
        y.values.push_back(product / divisor);
      }
    if (!correlation) return y;
    Array c = y;
    for (int64_t i = 0; i < v; ++i)
      for (int64_t j = 0; j < v; ++j)
        c.values[size_t(i * v + j)] /=
            std::sqrt(y.values[size_t(i * v + i)] * y.values[size_t(j * v + j)]);
    return c;
  };
}

}  // namespace

void statistics_cases(OpCases& cases) {
  const std::vector<DType> floats{f64, f32, bf16, f16};
  const auto add = [&](const char* op, double (*f)(const Values&), Fill fill,
                       const std::vector<DType>& dtypes, double tolerance) {
    const auto row = [&](const Attributes& attributes, const Reference& reference) {
      cases.push_back({.op = op,
                       .inputs = {Input{{3, 5}, fill}},
                       .attributes = attributes,
                       .reference = reference,
                       .tolerance = tolerance,
                       .dtypes = dtypes});
    };
    row({}, of_all(f));
    row({{"dim", int64_t(1)}}, of_rows(f));
  };
  add("count_nonzero", nonzero, Fill::kIntegers, {f64, f32, bf16, i64, u8, boolean}, 0);
  add("nansum", total, Fill::kNormal, floats, 8);
  add("nanmean", mean, Fill::kNormal, floats, 8);
  add("aminmax", smallest, Fill::kDistinct, {f64, f32, i64}, 0);
  add("std_mean", deviation, Fill::kPositive, floats, 16);
  add("var_mean", variance, Fill::kPositive, floats, 16);

  const auto matrix = [&](const char* op, std::vector<std::optional<Input>> inputs,
                          const Attributes& attributes, const Reference& reference) {
    cases.push_back({.op = op,
                     .inputs = std::move(inputs),
                     .attributes = attributes,
                     .reference = reference,
                     .tolerance = 32,
                     .dtypes = {f64, f32}});
  };
  const Input counts{.shape = {6}, .fill = Fill::kIndices, .bound = 4};
  const Input weights{.shape = {6}, .fill = Fill::kPositive};
  matrix("cov", {Input{{3, 6}}}, {}, covariance(1));
  matrix("cov", {Input{{3, 6}}}, {{"correction", int64_t(0)}}, covariance(0));
  matrix("cov", {Input{{6}}}, {}, covariance(1));
  matrix("cov", {Input{{3, 6}}, counts}, {}, covariance(1));
  matrix("cov", {Input{{3, 6}}, std::nullopt, weights}, {}, covariance(1));
  matrix("cov", {Input{{3, 6}}, counts, weights}, {{"correction", int64_t(2)}}, covariance(2));
  matrix("corrcoef", {Input{{3, 6}}}, {}, covariance(1, /*correlation=*/true));

  const auto counted = [](int64_t size, bool weighted) {
    return [=](const std::vector<Array>& in) {
      Array y{{size}, Values(size_t(size), 0.0)};
      for (size_t i = 0; i < in[0].values.size(); ++i)
        y.values[size_t(in[0].values[i])] += weighted ? in[1].values[i] : 1;
      return y;
    };
  };
  const Input numbers{.shape = {9}, .fill = Fill::kIndices, .bound = 5};
  cases.push_back({.op = "bincount",
                   .inputs = {numbers},
                   .attributes = {{"minlength", int64_t(7)}},
                   .reference = counted(7, false),
                   .tolerance = 0,
                   .dtypes = {f32}});
  cases.push_back({.op = "bincount",
                   .inputs = {numbers, Input{{9}}},
                   .attributes = {{"minlength", int64_t(7)}},
                   .reference = counted(7, true),
                   .tolerance = 8});
  for (const Shape& shape : {Shape{4, 5}, Shape{30, 36}})
    cases.push_back({.op = "histc",
                     .inputs = {Input{shape}},
                     .attributes = {{"bins", int64_t(6)}, {"min", -1.5}, {"max", 1.5}},
                     .reference =
                         [](const std::vector<Array>& in) {
                           Array y{{6}, Values(6, 0.0)};
                           for (double x : in[0].values)
                             if (x >= -1.5 && x <= 1.5)
                               ++y.values[size_t(std::min(std::floor((x + 1.5) * 2), 5.0))];
                           return y;
                         },
                     .tolerance = 0});

  const auto ordered = [&](const char* op, const Attributes& attributes, const Shape& shape,
                           const Reference& reference, double tolerance) {
    cases.push_back({.op = op,
                     .inputs = {Input{shape, Fill::kDistinct}},
                     .attributes = attributes,
                     .reference = reference,
                     .tolerance = tolerance});
  };
  ordered("nanmedian", {}, {3, 4}, of_all([](const Values& x) { return median(x); }), 0);
  ordered("nanmedian", {{"dim", int64_t(1)}}, {3, 5},
          of_rows([](const Values& x) { return median(x); }), 0);
  ordered("nanquantile", {{"q", 0.25}, {"dim", int64_t(1)}}, {3, 6},
          of_rows([](const Values& x) { return first_quartile(x); }), 8);
  ordered("nanquantile", {{"q", 0.25}}, {7},
          of_all([](const Values& x) { return first_quartile(x); }), 8);
  ordered("trapezoid", {{"dx", 0.5}}, {3, 5}, of_rows(integral), 16);
  cases.push_back({.op = "trapezoid",
                   .inputs = {Input{{2, 3}}, Input{{3}}},
                   .reference =
                       [](const std::vector<Array>& in) {
                         const Values &y = in[0].values, &x = in[1].values;
                         Array sum{{2}, {}};
                         for (size_t i = 0; i < 6; i += 3)
                           sum.values.push_back((y[i] + y[i + 1]) / 2 * (x[1] - x[0]) +
                                                (y[i + 1] + y[i + 2]) / 2 * (x[2] - x[1]));
                         return sum;
                       },
                   .tolerance = 32});
  cases.push_back({.op = "cumulative_trapezoid",
                   .inputs = {Input{{4}}},
                   .reference =
                       [](const std::vector<Array>& in) {
                         const Values& y = in[0].values;
                         Array sums{{3}, {}};
                         double sum = 0;
                         for (size_t i = 0; i < 3; ++i)
                           sums.values.push_back(sum += (y[i] + y[i + 1]) / 2);
                         return sums;
                       },
                   .tolerance = 16});
}

}  // namespace tapegrad::testing
