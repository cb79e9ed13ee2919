#include <algorithm>
#include <cmath>

#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

using Values = std::vector<double>;

double length(const Values& x, double p) {
  double sum = 0, largest = 0;
  for (double value : x) {
    sum += std::pow(std::fabs(value), p);
    largest = std::max(largest, std::fabs(value));
  }
  return std::isinf(p) ? largest : std::pow(sum, 1 / p);
}

Values row(const Array& x, int64_t i) {
  const int64_t n = x.shape[x.shape.rank() - 1];
  return Values(x.values.begin() + i * n, x.values.begin() + (i + 1) * n);
}
Values difference(const Values& a, const Values& b, double eps = 0) {
  Values d;
  for (size_t i = 0; i < a.size(); ++i) d.push_back(a[i] - b[i] + eps);
  return d;
}

}  // namespace

void distance_cases(OpCases& cases) {
  const auto add = [&](const char* op, std::vector<std::optional<Input>> inputs,
                       const Attributes& attributes, const Reference& reference) {
    cases.push_back({.op = op,
                     .inputs = std::move(inputs),
                     .attributes = attributes,
                     .reference = reference,
                     .tolerance = 24});
  };
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (double p : {2.0, 1.0, 3.0, kInf}) {
    const Attributes given{{"p", p}};
    add("dist", {Input{{3, 5}, Fill::kDistinct}, Input{{3, 5}, Fill::kPositive}}, given,
        [p](const std::vector<Array>& in) {
          return Array{{}, {length(difference(in[0].values, in[1].values), p)}};
        });
    add("cdist", {Input{{3, 5}}, Input{{4, 5}}}, given, [p](const std::vector<Array>& in) {
      Array y{{3, 4}, {}};
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t j = 0; j < 4; ++j)
          y.values.push_back(length(difference(row(in[0], i), row(in[1], j)), p));
      return y;
    });
    add("pairwise_distance", {Input{{3, 5}}, Input{{3, 5}}}, given,
        [p](const std::vector<Array>& in) {
          Array y{{3}, {}};
          for (int64_t i = 0; i < 3; ++i)
            y.values.push_back(length(difference(row(in[0], i), row(in[1], i), 1e-6), p));
          return y;
        });
    add("normalize", {Input{{3, 5}}}, given, [p](const std::vector<Array>& in) {
      Array y{{3, 5}, {}};
      for (int64_t i = 0; i < 3; ++i)
        for (double value : row(in[0], i)) y.values.push_back(value / length(row(in[0], i), p));
      return y;
    });
  }
  add("cosine_similarity", {Input{{3, 5}}, Input{{3, 5}}}, {}, [](const std::vector<Array>& in) {
    Array y{{3}, {}};
    for (int64_t i = 0; i < 3; ++i) {
      const Values a = row(in[0], i), b = row(in[1], i);
      double product = 0;
      for (size_t k = 0; k < a.size(); ++k) product += a[k] * b[k];
      y.values.push_back(product / (length(a, 2) * length(b, 2)));
    }
    return y;
  });
}

}  // namespace tapegrad::testing
