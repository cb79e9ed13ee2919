#include <cmath>

#include "tests/cases/drawn_cases.h"
#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

/// f(x, sum of exp along dim) for each element.
Reference along(int dim, double (*f)(double x, double sum)) {
  return [=](const std::vector<Array>& inputs) {
    const Array& x = inputs[0];
    Shape kept = x.shape;
    kept[dim] = 1;
    const auto group = [&](std::vector<int64_t> index) {
      index[dim] = 0;
      return flat_index(kept, index);
    };
    std::vector<double> sums(numel(kept));
    for_each_index(x.shape, [&](int64_t flat, const std::vector<int64_t>& index) {
      sums[group(index)] += std::exp(x.values[flat]);
    });
    Array y = x;
    for_each_index(x.shape, [&](int64_t flat, const std::vector<int64_t>& index) {
      y.values[flat] = f(x.values[flat], sums[group(index)]);
    });
    return y;
  };
}

double share(double x, double sum) { return std::exp(x) / sum; }
double log_share(double x, double sum) { return x - std::log(sum); }

OpCase shares(bool log, Shape shape, int dim) {
  return {.op = log ? "log_softmax" : "softmax",
          .inputs = {Input{shape}},
          .attributes = {{"dim", int64_t(dim)}},
          .reference = along(dim, log ? log_share : share),
          .tolerance = 16};
}

}  // namespace

void draw_softmax(OpCases& cases, Choices& choices) {
  const Shape shape = draw_shape(choices, int(choices.between(1, 4)), choices.of({4, 9, 70}));
  const int dim = int(choices.below(size_t(shape.rank())));
  cases.push_back(shares(choices.flag(), shape, dim));
  cases.back().attributes["dim"] = draw_sign(choices, dim, shape.rank());
}

void softmax_cases(OpCases& cases) {
  for (bool log : {false, true}) {
    const auto add = [&](Shape shape, int dim) { cases.push_back(shares(log, shape, dim)); };
    add({3, 5}, 1);
    add({3, 5}, 0);
    add({2, 4, 3}, 1);
    if (!log) add({2, 1, 3}, 1);  // rows of one element, whose logarithm is 0
    add({4}, 0);
    add({0, 3}, 1);
    add({3, 0}, 1);
    add({5, 37}, 1);
    add({37, 5}, 0);
  }
  for (int dim : {0, 1})
    cases.push_back({.op = "softmin",
                     .inputs = {Input{{3, 5}}},
                     .attributes = {{"dim", int64_t(dim)}},
                     .reference =
                         [=](std::vector<Array> inputs) {
                           for (double& x : inputs[0].values) x = -x;
                           return along(dim, share)(inputs);
                         },
                     .tolerance = 16});
}

}  // namespace tapegrad::testing
