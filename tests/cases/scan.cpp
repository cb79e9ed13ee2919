#include <algorithm>
#include <cmath>

#include "tests/op_case.h"

namespace tapegrad::testing {
namespace {

using Index = std::vector<int64_t>;

/// f of all elements along dim up to each one.
Reference running(int dim, double (*f)(const std::vector<double>& so_far)) {
  return [=](const std::vector<Array>& in) {
    Array y = in[0];
    for_each_index(y.shape, [&](int64_t flat, Index index) {
      std::vector<double> so_far;
      const int64_t last = index[size_t(dim)];
      for (index[size_t(dim)] = 0; index[size_t(dim)] <= last; ++index[size_t(dim)])
        so_far.push_back(in[0].values[size_t(flat_index(y.shape, index))]);
      y.values[size_t(flat)] = f(so_far);
    });
    return y;
  };
}

double product(const std::vector<double>& x) {
  double y = 1;
  for (double value : x) y *= value;
  return y;
}
double log_sum(const std::vector<double>& x) {
  double y = 0;
  for (double value : x) y += std::exp(value);
  return std::log(y);
}
double largest(const std::vector<double>& x) { return *std::max_element(x.begin(), x.end()); }
double smallest(const std::vector<double>& x) { return *std::min_element(x.begin(), x.end()); }

/// n differences of rows of in[1] (before), in[0] and in[2] (behind).
Reference differences(int n) {
  return [n](const std::vector<Array>& in) {
    const int64_t rows = in[0].shape[0];
    Array y;
    int64_t size = 0;
    for (int64_t i = 0; i < rows; ++i) {
      std::vector<double> row;
      for (size_t k : {size_t(1), size_t(0), size_t(2)}) {
        if (k >= in.size() || in[k].values.empty()) continue;
        const int64_t m = in[k].shape[1];
        row.insert(row.end(), in[k].values.begin() + i * m, in[k].values.begin() + (i + 1) * m);
      }
      for (int k = 0; k < n; ++k) {
        for (size_t j = 0; j + 1 < row.size(); ++j) row[j] = row[j + 1] - row[j];
        row.pop_back();
      }
      size = int64_t(row.size());
      y.values.insert(y.values.end(), row.begin(), row.end());
    }
    y.shape = {rows, size};
    return y;
  };
}

}  // namespace

void scan_cases(OpCases& cases) {
  const auto add = [&](const char* op, Fill fill, double (*f)(const std::vector<double>&),
                       double tolerance, const std::vector<DType>& dtypes) {
    for (const auto& [shape, dim] :
         {std::pair<Shape, int>{{3, 5}, 1}, {{3, 5}, 0}, {{2, 4, 3}, 1}, {{7}, 0}})
      cases.push_back({.op = op,
                       .inputs = {Input{shape, fill}},
                       .attributes = {{"dim", int64_t(dim)}},
                       .reference = running(dim, f),
                       .tolerance = tolerance,
                       .dtypes = dtypes});
  };
  const std::vector<DType> floats{f64, f32, bf16, f16}, all{f64, f32, bf16, f16, i64, i32};
  add("cumprod", Fill::kNormal, product, 8, all);
  add("cumprod", Fill::kIntegers, product, 8, all);  // with zeros
  add("logcumsumexp", Fill::kNormal, log_sum, 8, floats);
  add("cummax", Fill::kDistinct, largest, 0, all);
  add("cummin", Fill::kDistinct, smallest, 0, all);

  const auto row = [&](std::vector<std::optional<Input>> inputs, int64_t n) {
    cases.push_back({.op = "diff",
                     .inputs = std::move(inputs),
                     .attributes = {{"n", n}},
                     .reference = differences(int(n)),
                     .tolerance = 8,
                     .dtypes = all});
  };
  row({Input{{3, 5}}}, 1);
  row({Input{{3, 5}}}, 2);
  row({Input{{3, 5}}, Input{{3, 1}}, Input{{3, 2}}}, 1);
}

}  // namespace tapegrad::testing
