// Rows of ops/reshape.h, ops/join.h and ops/replace.h.
#include "tests/cases/op_case.h"
#include "tests/cases/references.h"

namespace tapegrad::testing {
namespace {

using Index = std::vector<int64_t>;
const std::vector<DType> kReshaped{f64, f32, bf16, f16, i64};

/// The element at `index` of the result, by the elements of the inputs.
using Element = double (*)(const std::vector<Array>& in, const Index& index);

Reference of_elements(const Shape& to, Element element) {
  return [=](const std::vector<Array>& in) {
    Array y{to, std::vector<double>(size_t(numel(to)))};
    for_each_index(
        to, [&](int64_t flat, const Index& index) { y.values[size_t(flat)] = element(in, index); });
    return y;
  };
}
double at(const Array& x, const Index& index) {
  return x.values[size_t(flat_index(x.shape, index))];
}
/// Returns the first input in another shape.

}  // namespace

void reshape_cases(OpCases& cases) {
  const auto add = [&](const char* op, const std::vector<std::optional<Input>>& inputs,
                       const Attributes& attributes, const Reference& reference) {
    cases.push_back({.op = op,
                     .inputs = inputs,
                     .attributes = attributes,
                     .reference = reference,
                     .tolerance = 0,
                     .dtypes = kReshaped});
  };
  const auto join = [&](const char* op, const std::vector<Input>& list,
                        const Reference& reference) {
    cases.push_back(
        {.op = op, .list = list, .reference = reference, .tolerance = 0, .dtypes = kReshaped});
  };
  const Input matrix{{3, 4}}, row{{4}}, column{{3}};
  using In = const std::vector<Array>&;
  using I = const Index&;

  add("unbind", {matrix}, {{"dim", int64_t(1)}}, of_elements({3}, [](In in, I i) {
        return at(in[0], {i[0], 0});
      }));
  add("tensor_split", {Input{{3, 5}}}, {{"indices_or_sections", int64_t(2)}, {"dim", int64_t(1)}},
      of_elements({3, 3}, [](In in, I i) { return at(in[0], i); }));
  add("tensor_split", {Input{{3, 5}}}, {{"indices_or_sections", Index{2, 4}}, {"dim", int64_t(1)}},
      of_elements({3, 2}, [](In in, I i) { return at(in[0], i); }));
  join("vstack", {row, row}, of_elements({2, 4}, [](In in, I i) { return at(in[i[0]], {i[1]}); }));
  join("hstack", {matrix, matrix}, of_elements({3, 8}, [](In in, I i) {
         return at(in[i[1] / 4], {i[0], i[1] % 4});
       }));
  join("hstack", {row, row},
       of_elements({8}, [](In in, I i) { return at(in[i[0] / 4], {i[0] % 4}); }));
  join("dstack", {matrix, matrix}, of_elements({3, 4, 2}, [](In in, I i) {
         return at(in[i[2]], {i[0], i[1]});
       }));
  join("column_stack", {column, matrix}, of_elements({3, 5}, [](In in, I i) {
         return i[1] == 0 ? at(in[0], {i[0]}) : at(in[1], {i[0], i[1] - 1});
       }));
  join("block_diag", {Input{{2, 3}}, row}, of_elements({3, 7}, [](In in, I i) {
         if (i[0] < 2 && i[1] < 3) return at(in[0], i);
         return i[0] == 2 && i[1] >= 3 ? at(in[1], {i[1] - 3}) : 0.0;
       }));
  join("cartesian_prod", {Input{{2}}, column}, of_elements({6, 2}, [](In in, I i) {
         return at(in[i[1]], {i[1] == 0 ? i[0] / 3 : i[0] % 3});
       }));
  join("broadcast_tensors", {row, Input{{3, 1}}},
       of_elements({3, 4}, [](In in, I i) { return at(in[0], {i[1]}); }));

  add("movedim", {Input{{2, 3, 4}}}, {{"source", Index{0, -1}}, {"destination", Index{1, 0}}},
      of_elements({4, 2, 3}, [](In in, I i) {
        return at(in[0], {i[1], i[2], i[0]});
      }));
  add("unflatten", {Input{{2, 6}}}, {{"dim", int64_t(-1)}, {"sizes", Index{3, -1}}},
      reshaped({2, 3, 2}));
  add("atleast_1d", {Input{{}}}, {}, reshaped({1}));
  add("atleast_2d", {row}, {}, reshaped({1, 4}));
  add("atleast_3d", {matrix}, {}, reshaped({3, 4, 1}));

  add("select_scatter", {matrix, column}, {{"dim", int64_t(1)}, {"index", int64_t(-1)}},
      of_elements({3, 4}, [](In in, I i) { return i[1] == 3 ? at(in[1], {i[0]}) : at(in[0], i); }));
  add("slice_scatter", {Input{{3, 5}}, Input{{3, 2}}},
      {{"dim", int64_t(1)}, {"start", int64_t(1)}, {"step", int64_t(2)}},
      of_elements({3, 5}, [](In in, I i) {
        return i[1] % 2 == 1 ? at(in[1], {i[0], i[1] / 2}) : at(in[0], i);
      }));
  add("diagonal_scatter", {matrix, column}, {{"offset", int64_t(1)}},
      of_elements({3, 4},
                  [](In in, I i) { return i[1] == i[0] + 1 ? at(in[1], {i[0]}) : at(in[0], i); }));
  const Input index{{3}, Fill::kIndices, 4};
  add("index_fill", {matrix, index}, {{"dim", int64_t(1)}, {"value", int64_t(2)}},
      of_elements({3, 4}, [](In in, I i) {
        for (const double chosen : in[1].values)
          if (int64_t(chosen) == i[1]) return 2.0;
        return at(in[0], i);
      }));
  add("index_copy", {matrix, index, Input{{3, 3}}}, {{"dim", int64_t(1)}},
      of_elements({3, 4}, [](In in, I i) {
        double value = at(in[0], i);
        for (int64_t k = 0; k < 3; ++k)
          if (int64_t(in[1].values[size_t(k)]) == i[1]) value = at(in[2], {i[0], k});
        return value;
      }));
}

}  // namespace tapegrad::testing
