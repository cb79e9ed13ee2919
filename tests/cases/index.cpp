#include "tests/cases/drawn_cases.h"
#include "tests/cases/op_case.h"
#include "tests/cases/references.h"

namespace tapegrad::testing {
namespace {

using Index = std::vector<int64_t>;
const std::vector<DType> kIndexed{f64, f32, bf16, f16, i64, u8, boolean};

/// Returns the index with its entry of dimension dim replaced by the element of `which` at `at`.
Index meant(Index index, const Array& which, int dim, const Index& at) {
  index[size_t(dim)] = int64_t(which.values[size_t(flat_index(which.shape, at))]);
  return index;
}

/// y[...] = x[..., index[i], ...]. The index of gather has all coordinates; other indices have only
/// that of dim.
Reference selected(int dim, bool gather) {
  return [=](const std::vector<Array>& in) {
    Array y{gather ? in[1].shape : in[0].shape, {}};
    if (!gather) y.shape[dim] = in[1].shape[0];
    y.values.resize(size_t(numel(y.shape)));
    for_each_index(y.shape, [&](int64_t flat, const Index& index) {
      const Index from = meant(index, in[1], dim, gather ? index : Index{index[size_t(dim)]});
      y.values[size_t(flat)] = in[0].values[size_t(flat_index(in[0].shape, from))];
    });
    return y;
  };
}

/// y = x, y[..., index[i], ...] += alpha * source[i]
Reference added(int dim, bool scatter, double alpha) {
  return [=](const std::vector<Array>& in) {
    Array y = in[0];
    for_each_index(scatter ? in[1].shape : in[2].shape, [&](int64_t, const Index& index) {
      const Index to = meant(index, in[1], dim, scatter ? index : Index{index[size_t(dim)]});
      y.values[size_t(flat_index(y.shape, to))] +=
          alpha * in[2].values[size_t(flat_index(in[2].shape, index))];
    });
    return y;
  };
}

Reference masked(double value) {
  return [value](const std::vector<Array>& in) {
    Array y = in[0];
    for_each_index(y.shape, [&](int64_t flat, const Index& index) {
      const Index last(index.end() - in[1].shape.rank(), index.end());
      if (in[1].values[size_t(flat_index(in[1].shape, last))] != 0) y.values[size_t(flat)] = value;
    });
    return y;
  };
}

}  // namespace

void draw_index(OpCases& cases, Choices& choices) {
  const Shape shape = draw_shape(choices, int(choices.between(1, 4)), 6);
  const int dim = int(choices.below(size_t(shape.rank())));
  const int64_t count = choices.between(0, 9), bound = shape[dim];
  Shape picked = shape, part = shape;
  picked[dim] = part[dim] = count;
  for (int i = 0; i < shape.rank(); ++i)
    if (i != dim) part[i] = choices.between(1, shape[i]);
  OpCase row{.op = {},
             .attributes = {{"dim", draw_sign(choices, dim, shape.rank())}},
             .tolerance = 0,
             .same_bits = true,
             .dtypes = {f64, f32}};
  const auto whole = [](const Shape& shape) { return Input{shape, Fill::kIntegers}; };
  switch (choices.below(4)) {
    case 0:
      row.op = "index_select";
      row.inputs = {whole(shape), indices({count}, bound)};
      row.reference = selected(dim, false);
      row.dtypes = kIndexed;
      break;
    case 1:
      row.op = "gather";
      row.inputs = {whole(shape), indices(part, bound)};
      row.reference = selected(dim, true);
      row.dtypes = kIndexed;
      break;
    case 2:
      row.op = "index_add";
      row.inputs = {whole(shape), indices({count}, bound), whole(picked)};
      row.attributes["alpha"] = 2.0;
      row.reference = added(dim, false, 2);
      break;
    case 3:
      row.op = "scatter_add";
      row.inputs = {whole(shape), indices(part, bound), whole(picked)};
      row.reference = added(dim, true, 1);
      break;
  }
  cases.push_back(row);
}

void index_cases(OpCases& cases) {
  const auto add = [&](const char* op, const std::vector<std::optional<Input>>& inputs,
                       const Attributes& attributes, const Reference& reference, double tolerance,
                       const std::vector<DType>& dtypes) {
    cases.push_back({.op = op,
                     .inputs = inputs,
                     .attributes = attributes,
                     .reference = reference,
                     .tolerance = tolerance,
                     .same_bits = true,
                     .dtypes = dtypes});
  };
  const std::vector<DType> sums{f64, f32, bf16, f16, i64, i32, u8};
  const auto along = [](int64_t dim) { return Attributes{{"dim", dim}}; };
  add(
      "embedding", {indices({2, 3}, 4), Input{{4, 3}}}, {},
      [](const std::vector<Array>& in) {
        Array y{{2, 3, 3}, {}};
        for (double id : in[0].values)
          for (size_t j = 0; j < 3; ++j) y.values.push_back(in[1].values[size_t(id) * 3 + j]);
        return y;
      },
      0, kIndexed);
  add("index_select", {Input{{4, 3}}, indices({5}, 4)}, along(0), selected(0, false), 0, kIndexed);
  add("index_select", {Input{{2, 4, 3}}, indices({5}, 4)}, along(-2), selected(1, false), 0,
      kIndexed);
  add("index_select", {Input{{2, 4}}, indices({3}, 4)}, along(1), selected(1, false), 0, kIndexed);
  add("gather", {Input{{4, 3}}, indices({5, 3}, 4)}, along(0), selected(0, true), 0, kIndexed);
  add("gather", {Input{{3, 4, 2}}, indices({2, 5, 2}, 4)}, along(1), selected(1, true), 0,
      kIndexed);
  add("gather", {Input{{3, 4}}, indices({3, 2}, 4)}, along(-1), selected(1, true), 0, kIndexed);
  add("index_add", {Input{{4, 3}}, indices({5}, 4), Input{{5, 3}}},
      {{"dim", int64_t(0)}, {"alpha", 2.0}}, added(0, false, 2), 4,
      {f64, f32, bf16, f16, i64, i32});
  add("index_add", {Input{{2, 4}}, indices({5}, 4), Input{{2, 5}}}, along(1), added(1, false, 1), 4,
      sums);
  add("scatter_add", {Input{{4, 3}}, indices({5, 2}, 4), Input{{5, 3}}}, along(0),
      added(0, true, 1), 4, sums);
  add("scatter_add", {Input{{3, 4}}, indices({3, 5}, 4), Input{{3, 5}}}, along(-1),
      added(1, true, 1), 4, sums);
  add("masked_fill", {Input{{2, 3}}, Input{{2, 3}, Fill::kBool}}, {{"value", int64_t(1)}},
      masked(1), 0, kIndexed);
  add("masked_fill", {Input{{2, 4, 3}}, Input{{4, 3}, Fill::kBool}}, {{"value", -0.5}},
      masked(-0.5), 0, {f64, f32, bf16, f16});
  add("masked_fill_", {Input{{2, 3}}, Input{{3}, Fill::kBool}}, {{"value", int64_t(1)}}, masked(1),
      0, kIndexed);
  add("one_hot", {indices({2, 3}, 4)}, {{"num_classes", int64_t(4)}},
      [](const std::vector<Array>& in) {
        Array y{{2, 3, 4}, {}};
        for (double id : in[0].values)
          for (int64_t j = 0; j < 4; ++j) y.values.push_back(double(j) == id);
        return y;
      },
      0, {f32});
}

}  // namespace tapegrad::testing
