#include <algorithm>

#include "tests/cases/drawn_cases.h"
#include "tests/cases/op_case.h"
#include "tests/cases/references.h"

namespace tapegrad::testing {
namespace {

using Index = std::vector<int64_t>;

/// y = x; then calls visit(element of y at the index, source) in row-major order of the index.
Reference scattered(int dim, void (*visit)(double& y, double source)) {
  return [=](const std::vector<Array>& in) {
    Array y = in[0];
    for_each_index(in[1].shape, [&](int64_t flat, Index index) {
      const double source =
          in.size() > 2 ? in[2].values[size_t(flat_index(in[2].shape, index))] : 0.5;
      index[size_t(dim)] = int64_t(in[1].values[size_t(flat)]);
      visit(y.values[size_t(flat_index(y.shape, index))], source);
    });
    return y;
  };
}

/// Combines all elements with one destination; x's element comes first if include_self.
Reference reduced(int dim, bool include_self, double (*f)(const std::vector<double>&)) {
  return [=](const std::vector<Array>& in) {
    Array y = in[0];
    std::vector<std::vector<double>> met(y.values.size());
    for_each_index(in[1].shape, [&](int64_t flat, Index index) {
      const double source = in[2].values[size_t(flat_index(in[2].shape, index))];
      index[size_t(dim)] = int64_t(in[1].values[size_t(flat)]);
      met[size_t(flat_index(y.shape, index))].push_back(source);
    });
    for (size_t i = 0; i < met.size(); ++i) {
      if (met[i].empty()) continue;
      if (include_self) met[i].push_back(in[0].values[i]);
      y.values[i] = f(met[i]);
    }
    return y;
  };
}

Array reference_masked_select(const std::vector<Array>& in) {
  Array y;
  for_each_index(in[0].shape, [&](int64_t flat, const Index& index) {
    const Index last(index.end() - in[1].shape.rank(), index.end());
    if (in[1].values[size_t(flat_index(in[1].shape, last))] != 0)
      y.values.push_back(in[0].values[size_t(flat)]);
  });
  y.shape = {int64_t(y.values.size())};
  return y;
}

Array reference_masked_scatter(const std::vector<Array>& in) {
  Array y = in[0];
  size_t next = 0;
  for (size_t i = 0; i < y.values.size(); ++i)
    if (in[1].values[i] != 0) y.values[i] = in[2].values[next++];
  return y;
}

Array reference_nonzero(const std::vector<Array>& in) {
  Array y;
  for_each_index(in[0].shape, [&](int64_t flat, const Index& index) {
    if (in[0].values[size_t(flat)] == 0) return;
    for (int64_t i : index) y.values.push_back(double(i));
  });
  y.shape = {int64_t(y.values.size()) / in[0].shape.rank(), in[0].shape.rank()};
  return y;
}

struct ScatterRow {
  const char* name;
  double (*f)(const std::vector<double>&);
};
constexpr ScatterRow kReductions[] = {
    {"sum", total}, {"prod", product}, {"mean", mean}, {"amax", largest}, {"amin", smallest}};

}  // namespace

void draw_scatter(OpCases& cases, Choices& choices) {
  const Shape shape = draw_shape(choices, int(choices.between(1, 4)), 5);
  const int dim = int(choices.below(size_t(shape.rank())));
  Shape part = shape, source = shape;
  for (int i = 0; i < shape.rank(); ++i) {
    part[i] = choices.between(1, i == dim ? 9 : shape[i]);
    source[i] = part[i] + choices.between(0, 2);
  }
  OpCase row{.op = {},
             .inputs = {Input{shape, Fill::kDistinct}, indices(part, shape[dim]),
                        Input{source, Fill::kDistinct}},
             .attributes = {{"dim", draw_sign(choices, dim, shape.rank())}}};
  if (choices.below(3) == 0) {
    row.op = "scatter";
    row.reference = scattered(dim, [](double& y, double source) { y = source; });
    row.tolerance = 0;
  } else {
    const ScatterRow& reduce = choices.of(kReductions);
    const bool include_self = choices.flag();
    row.op = "scatter_reduce";
    row.reference = reduced(dim, include_self, reduce.f);
    row.tolerance = 16;
    row.attributes["reduce"] = std::string(reduce.name);
    row.attributes["include_self"] = include_self;
    // A value may occur in both inputs, where an extreme has no derivative.
    const bool corner = std::string_view(reduce.name).starts_with("am");
    row.inputs[0]->grad = row.inputs[2]->grad = !corner;
  }
  cases.push_back(row);
}

void scatter_cases(OpCases& cases) {
  const std::vector<DType> moved{f64, f32, bf16, f16, i64, u8, boolean};
  const auto add = [&](const char* op, const std::vector<std::optional<Input>>& inputs,
                       const Attributes& attributes, const Reference& reference,
                       const std::vector<DType>& dtypes, double tolerance = 0) {
    cases.push_back({.op = op,
                     .inputs = inputs,
                     .attributes = attributes,
                     .reference = reference,
                     .tolerance = tolerance,
                     .dtypes = dtypes});
  };
  const auto along = [](int64_t dim) { return Attributes{{"dim", dim}}; };
  const auto replace = [](double& y, double source) { y = source; };
  add("scatter", {Input{{4, 3}}, indices({5, 2}, 4), Input{{5, 3}}}, along(0),
      scattered(0, replace), moved);
  add("scatter", {Input{{3, 4}}, indices({3, 5}, 4), Input{{3, 5}}}, along(-1),
      scattered(1, replace), moved);
  add("scatter", {Input{{2, 4, 3}}, indices({2, 2, 3}, 4), Input{{2, 2, 3}}}, along(1),
      scattered(1, replace), moved);
  add("scatter", {Input{{3, 4}}, indices({3, 2}, 4)}, {{"dim", int64_t(1)}, {"value", 0.5}},
      scattered(1, replace), {f64, f32, bf16, f16});

  for (const ScatterRow& row : kReductions)
    for (bool include_self : {true, false})
      for (int64_t dim : {0, 1}) {
        const Shape index = dim == 0 ? Shape{6, 3} : Shape{4, 5};
        add("scatter_reduce",
            {Input{{4, 3}, Fill::kDistinct}, indices(index, dim == 0 ? 4 : 3),
             Input{index, Fill::kDistinct}},
            {{"dim", dim}, {"reduce", std::string(row.name)}, {"include_self", include_self}},
            reduced(int(dim), include_self, row.f), {f64, f32, bf16, f16}, 16);
      }

  const auto taken = [](const std::vector<Array>& in) {
    Array y{in[1].shape, {}};
    for (double i : in[1].values) y.values.push_back(in[0].values[size_t(i)]);
    return y;
  };
  add("take", {Input{{3, 4}}, indices({2, 5}, 12)}, {}, taken, moved);
  add("take_along_dim", {Input{{3, 4}}, indices({5}, 12)}, {}, taken, moved);
  add(
      "take_along_dim", {Input{{3, 1, 4}}, indices({1, 2, 5}, 4)}, along(2),
      [](const std::vector<Array>& in) {
        Array y{{3, 2, 5}, {}};
        for_each_index(y.shape, [&](int64_t, const Index& i) {
          const double at = in[1].values[size_t(i[1] * 5 + i[2])];
          y.values.push_back(in[0].values[size_t(i[0] * 4 + int64_t(at))]);
        });
        return y;
      },
      moved);
  const Input mask{{3, 4}, Fill::kBool};
  add("masked_select", {Input{{3, 4}}, mask}, {}, reference_masked_select, moved);
  add("masked_select", {Input{{2, 3, 4}}, mask}, {}, reference_masked_select, moved);
  add("masked_scatter", {Input{{3, 4}}, mask, Input{{12}}}, {}, reference_masked_scatter, moved);
  add("nonzero", {Input{{3, 4}, Fill::kIntegers}}, {}, reference_nonzero, moved);
  add("nonzero", {Input{{2, 3, 2}, Fill::kBool}}, {}, reference_nonzero, {f32});
}

}  // namespace tapegrad::testing
