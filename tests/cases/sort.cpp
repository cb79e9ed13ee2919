#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/cases/drawn_cases.h"
#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

using Index = std::vector<int64_t>;
using Values = std::vector<double>;

/// Applies f to each column along dim; the result along dim has as many numbers as f returns.
Reference columns(int dim, const std::function<Values(const Values&)>& f, bool keep = true) {
  return [=](const std::vector<Array>& in) {
    const Shape& from = in[0].shape;
    Shape others = from;
    others[dim] = 1;
    Array y{from, {}};
    std::vector<Values> results;
    for_each_index(others, [&](int64_t, Index index) {
      Values column;
      for (; index[size_t(dim)] < from[dim]; ++index[size_t(dim)])
        column.push_back(in[0].values[size_t(flat_index(from, index))]);
      results.push_back(f(column));
    });
    y.shape[dim] = int64_t(results.at(0).size());
    for_each_index(y.shape, [&](int64_t, Index index) {
      const size_t at = size_t(index[size_t(dim)]);
      index[size_t(dim)] = 0;
      y.values.push_back(results[size_t(flat_index(others, index))][at]);
    });
    if (keep) return y;
    Shape dropped;
    for (int i = 0; i < from.rank(); ++i)
      if (i != dim) dropped.push_back(from[i]);
    y.shape = dropped;
    return y;
  };
}

Values in_order(Values x, bool descending = false) {
  std::sort(x.begin(), x.end());
  if (descending) std::reverse(x.begin(), x.end());
  return x;
}
Values indices_in_order(const Values& x) {
  Values y(x.size());
  std::iota(y.begin(), y.end(), 0.0);
  std::stable_sort(y.begin(), y.end(),
                   [&](double a, double b) { return x[size_t(a)] < x[size_t(b)]; });
  return y;
}

double quantile_of(Values x, double q, const std::string& how) {
  x = in_order(x);
  const double at = q * double(x.size() - 1), low = std::floor(at);
  const double a = x[size_t(low)], b = x[size_t(std::ceil(at))];
  if (how == "lower") return a;
  if (how == "higher") return b;
  if (how == "midpoint") return (a + b) / 2;
  if (how == "nearest") return x[size_t(std::nearbyint(at))];
  return a + (b - a) * (at - low);
}

}  // namespace

void draw_sort(OpCases& cases, Choices& choices) {
  const Shape shape = draw_shape(choices, int(choices.between(1, 4)), choices.of({3, 7, 20}));
  const int dim = int(choices.below(size_t(shape.rank())));
  const int64_t n = shape[dim], k = choices.between(1, n);
  const bool flag = choices.flag();
  OpCase row{.op = {},
             .inputs = {Input{shape, Fill::kDistinct}},
             .attributes = {{"dim", draw_sign(choices, dim, shape.rank())}},
             .tolerance = 0,
             .dtypes = {f64, f32, bf16, f16, i64, i32, u8, i8}};
  switch (choices.below(5)) {
    case 0:
      row.op = "sort";
      row.attributes["descending"] = flag;
      row.reference = columns(dim, [=](const Values& x) { return in_order(x, flag); });
      break;
    case 1:
      row.op = "argsort";
      row.reference = columns(dim, indices_in_order);
      break;
    case 2:
      row.op = "topk";
      row.attributes["k"] = k;
      row.attributes["largest"] = flag;
      row.reference = columns(dim, [=](const Values& x) {
        const Values y = in_order(x, flag);
        return Values(y.begin(), y.begin() + k);
      });
      break;
    case 3:
      row.op = "kthvalue";
      row.attributes["k"] = k;
      row.attributes["keepdim"] = flag;
      row.reference = columns(
          dim, [=](const Values& x) { return Values{in_order(x)[size_t(k - 1)]}; }, flag);
      break;
    case 4:
      row.op = "median";
      row.attributes["keepdim"] = flag;
      row.reference = columns(
          dim, [](const Values& x) { return Values{in_order(x)[(x.size() - 1) / 2]}; }, flag);
      break;
  }
  cases.push_back(row);
}

void sort_cases(OpCases& cases) {
  const std::vector<DType> all{f64, f32, bf16, f16, i64, i32, u8, i8};
  const auto add = [&](const char* op, const Shape& shape, const Attributes& attributes,
                       const Reference& reference, Fill fill = Fill::kDistinct) {
    cases.push_back({.op = op,
                     .inputs = {Input{shape, fill}},
                     .attributes = attributes,
                     .reference = reference,
                     .tolerance = 0,
                     .dtypes = all});
  };
  for (const auto& [shape, dim] :
       {std::pair<Shape, int>{{3, 5}, 1}, {{4, 3}, 0}, {{2, 4, 3}, 1}, {{7}, 0}}) {
    const auto with = [dim = dim](Attributes more = {}) {
      more["dim"] = int64_t(dim);
      return more;
    };
    add("sort", shape, with(), columns(dim, [](const Values& x) { return in_order(x); }));
    add("sort", shape, with({{"descending", true}}),
        columns(dim, [](const Values& x) { return in_order(x, true); }));
    add("argsort", shape, with(), columns(dim, indices_in_order));
    add("topk", shape, with({{"k", int64_t(2)}}), columns(dim, [](const Values& x) {
          const Values y = in_order(x, true);
          return Values{y[0], y[1]};
        }));
    add("topk", shape, with({{"k", int64_t(1)}, {"largest", false}}),
        columns(dim, [](const Values& x) { return Values{in_order(x)[0]}; }));
    add("kthvalue", shape, with({{"k", int64_t(2)}}),
        columns(
            dim, [](const Values& x) { return Values{in_order(x)[1]}; }, false));
    add("median", shape, with({{"keepdim", true}}),
        columns(dim, [](const Values& x) { return Values{in_order(x)[(x.size() - 1) / 2]}; }));
  }
  add("median", {3, 4}, {}, [](const std::vector<Array>& in) {
    return Array{{}, {in_order(in[0].values)[5]}};
  });
  add(
      "unique", {3, 4}, {},
      [](const std::vector<Array>& in) {
        Values y = in_order(in[0].values);
        y.erase(std::unique(y.begin(), y.end()), y.end());
        return Array{{int64_t(y.size())}, y};
      },
      Fill::kIntegers);

  for (int64_t dim : {0, 1})  // slices of three whole numbers
    add(
        "unique", dim == 0 ? Shape{5, 3} : Shape{3, 5}, {{"dim", dim}},
        [dim](const std::vector<Array>& in) {
          std::vector<Values> slices(5);
          for (size_t i = 0; i < 5; ++i)
            for (size_t k = 0; k < 3; ++k)
              slices[i].push_back(in[0].values[dim == 0 ? 3 * i + k : 5 * k + i]);
          std::sort(slices.begin(), slices.end());
          slices.erase(std::unique(slices.begin(), slices.end()), slices.end());
          const int64_t n = int64_t(slices.size());
          Array y{dim == 0 ? Shape{n, 3} : Shape{3, n}, Values(size_t(3 * n))};
          for (size_t i = 0; i < size_t(n); ++i)
            for (size_t k = 0; k < 3; ++k)
              y.values[dim == 0 ? 3 * i + k : size_t(n) * k + i] = slices[i][k];
          return y;
        },
        Fill::kIntegers);

  for (const char* how : {"linear", "lower", "higher", "midpoint", "nearest"}) {
    const auto row = [&](const Shape& shape, const Shape& q, const Attributes& more,
                         const Reference& reference) {
      Attributes attributes = more;
      attributes["interpolation"] = std::string(how);
      cases.push_back(
          {.op = "quantile",
           .inputs = {Input{shape, Fill::kDistinct},
                      Input{.shape = q, .fill = Fill::kUnit, .grad = std::string(how) == "linear"}},
           .attributes = attributes,
           .reference = reference,
           .tolerance = 32,
           .dtypes = {f64, f32}});
    };
    row({3, 4}, {}, {}, [how](const std::vector<Array>& in) {
      return Array{{}, {quantile_of(in[0].values, in[1].values[0], how)}};
    });
    row({2, 3, 2}, {2}, {{"dim", std::vector<int64_t>{-1, 0}}, {"keepdim", true}},
        [how](const std::vector<Array>& in) {
          Array y{{2, 1, 3, 1}, {}};
          for (double q : in[1].values)
            for (size_t i = 0; i < 3; ++i) {
              const auto at = [&](size_t k) { return in[0].values[6 * (k / 2) + 2 * i + k % 2]; };
              y.values.push_back(quantile_of({at(0), at(1), at(2), at(3)}, q, how));
            }
          return y;
        });
    row({3, 4}, {2}, {{"dim", int64_t(1)}}, [how](const std::vector<Array>& in) {
      Array y{{2, 3}, {}};
      for (double q : in[1].values)
        for (size_t i = 0; i < 3; ++i)
          y.values.push_back(quantile_of(
              Values(in[0].values.begin() + 4 * i, in[0].values.begin() + 4 * i + 4), q, how));
      return y;
    });
    row({4, 2, 3}, {2}, {{"dim", int64_t(0)}, {"keepdim", true}},
        [how](const std::vector<Array>& in) {
          Array y{{2, 1, 2, 3}, {}};
          for (double q : in[1].values)
            for (size_t i = 0; i < 6; ++i) {
              Values x;
              for (size_t k = 0; k < 4; ++k) x.push_back(in[0].values[6 * k + i]);
              y.values.push_back(quantile_of(x, q, how));
            }
          return y;
        });
  }
  for (bool right : {false, true})
    cases.push_back({.op = "searchsorted",
                     .inputs = {Input{{1}, Fill::kIntegers}, Input{{3, 5}, Fill::kIntegers}},
                     .attributes = {{"right", right}},
                     .reference =
                         [right](const std::vector<Array>& in) {
                           Array y = in[1];
                           const double bound = in[0].values[0];
                           for (double& v : y.values) v = right ? bound <= v : bound < v;
                           return y;
                         },
                     .tolerance = 0,
                     .dtypes = all});
}

}  // namespace tapegrad::testing
