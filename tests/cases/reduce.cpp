#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/cases/drawn_cases.h"
#include "tests/cases/op_case.h"
#include "tests/cases/references.h"

namespace tapegrad::testing {
namespace {

using Values = std::vector<double>;

/// Applies f to the elements that are reduced to each output, in row-major order. No dims means
/// all.
Reference over(std::vector<int64_t> dims, bool keepdim, std::function<double(const Values&)> f) {
  return [=](const std::vector<Array>& inputs) {
    const Array& x = inputs[0];
    std::vector<bool> reduced(x.shape.rank(), dims.empty());
    for (int64_t dim : dims) reduced[dim < 0 ? dim + x.shape.rank() : dim] = true;
    Shape kept, shape;
    for (int i = 0; i < x.shape.rank(); ++i) {
      kept.push_back(reduced[i] ? 1 : x.shape[i]);
      if (keepdim || !reduced[i]) shape.push_back(kept[i]);
    }
    std::vector<Values> groups(numel(kept));
    for_each_index(x.shape, [&](int64_t flat, const std::vector<int64_t>& index) {
      std::vector<int64_t> to = index;
      for (size_t i = 0; i < to.size(); ++i)
        if (reduced[i]) to[i] = 0;
      groups[flat_index(kept, to)].push_back(x.values[flat]);
    });
    Array y{shape, {}};
    for (const Values& group : groups) y.values.push_back(f(group));
    return y;
  };
}

double where_largest(const Values& xs) {
  return double(std::max_element(xs.begin(), xs.end()) - xs.begin());
}
double where_smallest(const Values& xs) {
  return double(std::min_element(xs.begin(), xs.end()) - xs.begin());
}
double any_of(const Values& xs) {
  return std::count(xs.begin(), xs.end(), 0.0) < int64_t(xs.size());
}
double all_of(const Values& xs) { return std::count(xs.begin(), xs.end(), 0.0) == 0; }
double log_sum_exp(const Values& xs) {
  double sum = 0;
  for (double x : xs) sum += std::exp(x);
  return std::log(sum);
}
std::function<double(const Values&)> variance(double correction, bool root = false) {
  return [=](const Values& xs) {
    const double middle = mean(xs);
    double sum = 0;
    for (double x : xs) sum += (x - middle) * (x - middle);
    const double var = sum / (double(xs.size()) - correction);
    return root ? std::sqrt(var) : var;
  };
}
std::function<double(const Values&)> norm_of(double p) {
  return [=](const Values& xs) {
    double sum = 0, largest = 0;
    for (double x : xs) {
      sum += p == 0 ? double(x != 0) : std::pow(std::fabs(x), p);
      largest = std::max(largest, std::fabs(x));
    }
    return std::isinf(p) ? largest : p == 0 ? sum : std::pow(sum, 1 / p);
  };
}

using Ints = std::vector<int64_t>;

struct ReduceRow {
  std::string op;
  std::function<double(const Values&)> f;
  Fill fill = Fill::kNormal;
  double tolerance = 16;
};

const std::vector<ReduceRow>& rows() {
  static const std::vector<ReduceRow> all{
      {"sum", total},
      {"mean", mean},
      {"var", variance(1)},
      {"std", variance(1, true)},
      {"amax", largest, Fill::kDistinct, 0},
      {"amin", smallest, Fill::kDistinct, 0},
      {"any", any_of, Fill::kBool, 0},
      {"all", all_of, Fill::kBool, 0},
      {"norm", norm_of(2)},
      {"logsumexp", log_sum_exp},
  };
  return all;
}

OpCase reduction(const ReduceRow& of, Shape shape, Ints dims, bool keepdim) {
  OpCase row{.op = of.op, .inputs = {Input{shape, of.fill}}};
  if (!dims.empty()) row.attributes["dim"] = dims;
  if (keepdim) row.attributes["keepdim"] = true;
  row.reference = over(dims, keepdim, of.f);
  row.tolerance = of.tolerance;
  return row;
}

}  // namespace

void draw_reduce(OpCases& cases, Choices& choices) {
  const Shape shape = draw_shape(choices, int(choices.below(5)), choices.of({4, 9, 40}));
  Ints dims;
  for (int i = 0; i < shape.rank(); ++i)
    if (choices.flag()) dims.push_back(draw_sign(choices, i, shape.rank()));
  const ReduceRow& of = choices.of(rows());
  if (of.op == "logsumexp" && dims.empty()) return;
  cases.push_back(reduction(of, shape, dims, choices.flag()));
}

void reduce_cases(OpCases& cases) {
  for (const ReduceRow& of : rows()) {
    const auto add = [&](Shape shape, Ints dims, bool keepdim) {
      cases.push_back(reduction(of, shape, std::move(dims), keepdim));
    };
    if (of.op != "logsumexp") add({2, 3}, {}, false);
    add({2, 3}, {1}, false);
    add({3, 4}, {0}, true);
    add({2, 3, 4}, {0, -1}, false);
    add({2, 3, 2}, {1}, false);
    add({0, 3}, {1}, false);  // the result is empty
    if (of.op == "sum" || of.op == "mean") add({70, 37}, {1}, false), add({70, 37}, {0}, false);
  }
  cases.push_back({.op = "sum",
                   .inputs = {Input{{3, 0}}},
                   .attributes = {{"dim", Ints{1}}},
                   .reference = over({1}, false, total)});
  for (const Ints& dims : {Ints{2, 3}, Ints{0, 2, 3}, Ints{1, 2, 3}}) {
    cases.push_back(reduction(rows()[dims.size() % 2], {2, 32, 24, 24}, dims, dims[0] == 2));
    cases.back().dtypes = {f32, bf16};
    cases.back().before = packed_images;
  }
  cases.push_back({.op = "sum_to",
                   .inputs = {Input{{2, 3, 4}}},
                   .attributes = {{"shape", Ints{3, 1}}},
                   .reference =
                       [](const std::vector<Array>& inputs) {
                         Array y = over({0, 2}, false, total)(inputs);
                         y.shape = {3, 1};
                         return y;
                       },
                   .tolerance = 16});
  for (const char* op : {"var", "std"})
    cases.push_back({.op = op,
                     .inputs = {Input{{3, 4}}},
                     .attributes = {{"dim", Ints{0}}, {"correction", int64_t(0)}},
                     .reference = over({0}, false, variance(0, op == std::string("std"))),
                     .tolerance = 16});
  for (double p : {0.0, 1.0, 3.0, 2.5, std::numeric_limits<double>::infinity()})
    cases.push_back({.op = "norm",
                     .inputs = {Input{{3, 4}}},
                     .attributes = {{"p", p}, {"dim", Ints{1}}},
                     .reference = over({1}, false, norm_of(p)),
                     .tolerance = 16});

  cases.push_back({.op = "prod",
                   .inputs = {Input{{2, 3}}},
                   .reference = over({}, false, product),
                   .tolerance = 16});
  for (int64_t dim : {0, 1, -1})
    cases.push_back({.op = "prod",
                     .inputs = {Input{{3, 5, 2}}},
                     .attributes = {{"dim", dim}, {"keepdim", dim == 1}},
                     .reference = over({dim}, dim == 1, product),
                     .tolerance = 16});

  struct Extreme {
    std::string op;
    double (*f)(const Values&);
  };
  for (const auto& [op, f] :
       {Extreme{"max", largest}, Extreme{"min", smallest}, Extreme{"argmax", where_largest},
        Extreme{"argmin", where_smallest}}) {
    cases.push_back({.op = op,
                     .inputs = {Input{{3, 4}, Fill::kDistinct}},
                     .reference = over({}, false, f),
                     .tolerance = 0});
    for (int64_t dim : {0, 1, -1})
      cases.push_back({.op = op,
                       .inputs = {Input{{3, 4, 2}, Fill::kDistinct}},
                       .attributes = {{"dim", dim}, {"keepdim", dim == 1}},
                       .reference = over({dim}, dim == 1, f),
                       .tolerance = 0});
    cases.push_back({.op = op,
                     .inputs = {Input{{0, 3}, Fill::kDistinct}},
                     .attributes = {{"dim", int64_t(1)}},
                     .reference = over({1}, false, f),
                     .tolerance = 0});
  }
}

}  // namespace tapegrad::testing
