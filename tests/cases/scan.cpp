#include <algorithm>
#include <cmath>

#include "tests/cases/drawn_cases.h"
#include "tests/cases/op_case.h"
#include "tests/cases/references.h"

namespace tapegrad::testing {
namespace {

using Index = std::vector<int64_t>;

/// Applies f to the elements along dim up to each element.
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

double log_sum(const std::vector<double>& x) {
  double y = 0;
  for (double value : x) y += std::exp(value);
  return std::log(y);
}

/// n-th differences along rows of in[1] (prepended), in[0] and in[2] (appended).
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

const std::vector<DType> kFloats{f64, f32, bf16, f16}, kAll{f64, f32, bf16, f16, i64, i32};

struct ScanRow {
  const char* op;
  Fill fill;
  double (*f)(const std::vector<double>&);
  double tolerance;
  const std::vector<DType>& dtypes;

  OpCase along(Shape shape, int dim) const {
    return {.op = op,
            .inputs = {Input{shape, fill}},
            .attributes = {{"dim", int64_t(dim)}},
            .reference = running(dim, f),
            .tolerance = tolerance,
            .dtypes = dtypes};
  }
};
const ScanRow kScans[] = {{"cumsum", Fill::kNormal, total, 16, kAll},
                          {"cumprod", Fill::kNormal, product, 8, kAll},
                          {"cumprod", Fill::kIntegers, product, 8, kAll},  // with zeros
                          {"logcumsumexp", Fill::kNormal, log_sum, 8, kFloats},
                          {"cummax", Fill::kDistinct, largest, 0, kAll},
                          {"cummin", Fill::kDistinct, smallest, 0, kAll}};

OpCase difference(std::vector<std::optional<Input>> inputs, int64_t n) {
  return {.op = "diff",
          .inputs = std::move(inputs),
          .attributes = {{"n", n}},
          .reference = differences(int(n)),
          .tolerance = 8,
          .dtypes = kAll};
}

}  // namespace

void draw_scan(OpCases& cases, Choices& choices) {
  if (choices.below(4) == 0) {
    const int64_t rows = choices.between(1, 6), n = choices.between(1, 3);
    const auto part = [&](int64_t least) { return Input{{rows, choices.between(least, 9)}}; };
    std::vector<std::optional<Input>> inputs{part(n + 1), std::nullopt, std::nullopt};
    for (size_t i : {1, 2})
      if (choices.flag()) inputs[i] = part(1);
    cases.push_back(difference(inputs, n));
    return;
  }
  const ScanRow& row = choices.of(kScans);
  const Shape shape = draw_shape(choices, int(choices.between(1, 4)), 7);
  const int dim = int(choices.below(size_t(shape.rank())));
  cases.push_back(row.along(shape, dim));
  cases.back().attributes["dim"] = draw_sign(choices, dim, shape.rank());
}

void scan_cases(OpCases& cases) {
  for (const ScanRow& row : kScans)
    for (const auto& [shape, dim] :
         {std::pair<Shape, int>{{3, 5}, 1}, {{3, 5}, 0}, {{2, 4, 3}, 1}, {{7}, 0}})
      cases.push_back(row.along(shape, dim));
  cases.push_back(difference({Input{{3, 5}}}, 1));
  cases.push_back(difference({Input{{3, 5}}}, 2));
  cases.push_back(difference({Input{{3, 5}}, Input{{3, 1}}, Input{{3, 2}}}, 1));
}

}  // namespace tapegrad::testing
