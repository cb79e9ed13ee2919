#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

using Index = std::vector<int64_t>;

Reference triangle(int64_t diagonal, bool lower) {
  return [=](const std::vector<Array>& in) {
    Array y = in[0];
    for_each_index(y.shape, [&](int64_t flat, const Index& index) {
      const int64_t distance = index.back() - index[index.size() - 2];
      if (lower ? distance > diagonal : distance < diagonal) y.values[size_t(flat)] = 0;
    });
    return y;
  };
}

/// Returns x[..., i + down, ..., i + right, ...] with the two dimensions dim1 and dim2.
Reference diagonal_of(int64_t down, int64_t right, int dim1, int dim2, const Shape& to) {
  return [=](const std::vector<Array>& in) {
    Array y{to, {}};
    for_each_index(to, [&](int64_t, const Index& index) {
      Index from;
      for (int i = 0, next = 0; i < in[0].shape.rank(); ++i)
        from.push_back(i == dim1   ? index.back() + down
                       : i == dim2 ? index.back() + right
                                   : index[size_t(next++)]);
      y.values.push_back(in[0].values[size_t(flat_index(in[0].shape, from))]);
    });
    return y;
  };
}

Reference embedded(int64_t offset, int dim1, int dim2, const Shape& to) {
  return [=](const std::vector<Array>& in) {
    Array y{to, {}};
    for_each_index(to, [&](int64_t, const Index& index) {
      Index from;
      for (int i = 0; i < to.rank(); ++i)
        if (i != dim1 && i != dim2) from.push_back(index[size_t(i)]);
      const int64_t row = index[size_t(dim1)], column = index[size_t(dim2)];
      from.push_back(offset > 0 ? row : column);
      const bool on = column - row == offset;
      y.values.push_back(on ? in[0].values[size_t(flat_index(in[0].shape, from))] : 0);
    });
    return y;
  };
}

}  // namespace

void diagonal_cases(OpCases& cases) {
  const std::vector<DType> moved{f64, f32, bf16, f16, i64, i8, boolean};
  const auto add = [&](const char* op, const Shape& shape, const Attributes& attributes,
                       const Reference& reference) {
    cases.push_back({.op = op,
                     .inputs = {Input{shape}},
                     .attributes = attributes,
                     .reference = reference,
                     .tolerance = 0,
                     .same_bits = true,
                     .dtypes = moved});
  };
  for (int64_t k : {0, 1, -2}) {
    add("tril", {4, 5}, {{"diagonal", k}}, triangle(k, true));
    add("triu", {2, 4, 3}, {{"diagonal", k}}, triangle(k, false));
  }
  const auto plane = [](int64_t offset, int64_t dim1, int64_t dim2) {
    return Attributes{{"offset", offset}, {"dim1", dim1}, {"dim2", dim2}};
  };
  add("diagonal", {4, 5}, {}, diagonal_of(0, 0, 0, 1, {4}));
  add("diagonal", {4, 5}, {{"offset", int64_t(2)}}, diagonal_of(0, 2, 0, 1, {3}));
  add("diagonal", {4, 5}, {{"offset", int64_t(-3)}}, diagonal_of(3, 0, 0, 1, {1}));
  add("diagonal", {4, 5}, {{"offset", int64_t(9)}}, diagonal_of(0, 9, 0, 1, {0}));
  add("diagonal", {3, 2, 4}, plane(1, -1, 0), diagonal_of(0, 1, 2, 0, {2, 2}));
  add("diag_embed", {2, 3}, {}, embedded(0, 1, 2, {2, 3, 3}));
  add("diag_embed", {2, 3}, plane(1, 0, 2), embedded(1, 0, 2, {4, 2, 4}));
  add("diag_embed", {3}, plane(-2, 1, 0), embedded(-2, 1, 0, {5, 5}));
  add("diag", {3}, {{"diagonal", int64_t(-1)}}, embedded(-1, 0, 1, {4, 4}));
  add("diag", {4, 3}, {{"diagonal", int64_t(1)}}, diagonal_of(0, 1, 0, 1, {2}));
  cases.push_back({.op = "trace",
                   .inputs = {Input{{4, 3}}},
                   .reference =
                       [](const std::vector<Array>& in) {
                         const std::vector<double>& x = in[0].values;
                         return Array{{}, {x[0] + x[4] + x[8]}};
                       },
                   .tolerance = 8,
                   .dtypes = {f64, f32, bf16, f16, i64, i32}});
  const auto places_of = [&](const char* op, std::vector<double> places) {
    const int64_t count = int64_t(places.size()) / 2;
    cases.push_back({.op = op,
                     .attributes = {{"row", int64_t(2)}, {"col", int64_t(3)}},
                     .reference =
                         [=](const std::vector<Array>&) {
                           return Array{{2, count}, places};
                         },
                     .tolerance = 0});
  };
  places_of("tril_indices", {0, 1, 1, 0, 0, 1});
  places_of("triu_indices", {0, 0, 0, 1, 1, 0, 1, 2, 1, 2});
  for (const bool increasing : {false, true})
    cases.push_back({.op = "vander",
                     .inputs = {Input{{3}, Fill::kPositive}},
                     .attributes = {{"N", int64_t(4)}, {"increasing", increasing}},
                     .reference =
                         [increasing](const std::vector<Array>& in) {
                           Array y{{3, 4}, {}};
                           for (const double x : in[0].values) {
                             const double powers[] = {1, x, x * x, x * x * x};
                             for (int i = 0; i < 4; ++i)
                               y.values.push_back(powers[increasing ? i : 3 - i]);
                           }
                           return y;
                         },
                     .tolerance = 16});
}

}  // namespace tapegrad::testing
