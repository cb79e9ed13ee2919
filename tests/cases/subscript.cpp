#include "tests/cases/op_case.h"
#include "tests/cases/references.h"

namespace tapegrad::testing {
namespace {

using Index = std::vector<int64_t>;

/// Returns the source index of element `index` of the result; number(k, i) is element i of tensor
/// k.
using Source = std::function<Index(const Index& index,
                                   const std::function<int64_t(size_t k, int64_t i)>& number)>;

Reference read(const Shape& to, const Source& source) {
  return [=](const std::vector<Array>& in) {
    Array y{to, {}};
    for_each_index(to, [&](int64_t, const Index& index) {
      const Index from =
          source(index, [&](size_t k, int64_t i) { return int64_t(in[1 + k].values[size_t(i)]); });
      y.values.push_back(in[0].values[size_t(flat_index(in[0].shape, from))]);
    });
    return y;
  };
}

/// Writes to the elements that a read of shape `to` would read, in the order of the read.
Reference written(const Shape& to, bool accumulate, const Source& source) {
  return [=](const std::vector<Array>& in) {
    Array y = in[0];
    for_each_index(to, [&](int64_t, const Index& index) {
      const Index place =
          source(index, [&](size_t k, int64_t i) { return int64_t(in[2 + k].values[size_t(i)]); });
      Index own(index.end() - in[1].shape.rank(), index.end());
      const double value = in[1].values[size_t(flat_index(in[1].shape, own))];
      double& target = y.values[size_t(flat_index(y.shape, place))];
      target = accumulate ? target + value : value;
    });
    return y;
  };
}

}  // namespace

void subscript_cases(OpCases& cases) {
  const std::vector<DType> moved{f64, f32, bf16, f16, i64, u8, boolean};
  const auto at = [&](const char* text, const Shape& shape, const std::vector<Input>& tensors,
                      const Reference& reference) {
    cases.push_back({.op = "at",
                     .inputs = {Input{shape}},
                     .list = tensors,
                     .attributes = {{"index", std::string(text)}},
                     .reference = reference,
                     .tolerance = 0,
                     .dtypes = moved});
  };
  at("1::2, -1", {4, 5}, {}, read({2}, [](const Index& i, auto) {
       return Index{1 + 2 * i[0], 4};
     }));
  at("..., None, 2", {4, 5}, {}, read({4, 1}, [](const Index& i, auto) { return Index{i[0], 2}; }));
  at("-3:", {4, 5}, {}, read({3, 5}, [](const Index& i, auto) { return Index{1 + i[0], i[1]}; }));
  at("t", {4, 5}, {indices({3}, 4)}, read({3, 5}, [](const Index& i, const auto& number) {
       return Index{number(0, i[0]), i[1]};
     }));
  at(":, t, t", {4, 5, 3}, {indices({2, 1}, 5), indices({3}, 3)},
     read({4, 2, 3}, [](const Index& i, const auto& number) {
       return Index{i[0], number(0, i[1]), number(1, i[2])};
     }));
  at("t, :, t", {4, 5, 3}, {indices({2}, 4), indices({2}, 3)},
     read({2, 5}, [](const Index& i, const auto& number) {
       return Index{number(0, i[0]), i[1], number(1, i[0])};
     }));
  at("1:, ..., t", {4, 5, 3}, {indices({2, 2}, 3)},
     read({3, 5, 2, 2}, [](const Index& i, const auto& number) {
       return Index{1 + i[0], i[1], number(0, i[2] * 2 + i[3])};
     }));
  at("t", {3, 4}, {Input{{3, 4}, Fill::kBool}}, [](const std::vector<Array>& in) {
    Array y;
    for (size_t i = 0; i < 12; ++i)
      if (in[1].values[i] != 0) y.values.push_back(in[0].values[i]);
    y.shape = {int64_t(y.values.size())};
    return y;
  });

  for (const char* op : {"index_put", "index_put_"})
    for (bool accumulate : {false, true}) {
      const auto put = [&](const char* text, const Shape& values, const std::vector<Input>& tensors,
                           const Shape& to, const Source& source) {
        const bool sums = accumulate;
        cases.push_back({.op = op,
                         .inputs = {Input{{4, 5}}, Input{values}},
                         .list = tensors,
                         .attributes = {{"index", std::string(text)}, {"accumulate", accumulate}},
                         .reference = written(to, accumulate, source),
                         .tolerance = sums ? 8.0 : 0.0,
                         .dtypes = sums ? std::vector<DType>{f64, f32, bf16, f16, i64} : moved});
      };
      put("1:3", {5}, {}, {2, 5}, [](const Index& i, auto) { return Index{1 + i[0], i[1]}; });
      put("t", {6, 5}, {indices({6}, 4)}, {6, 5}, [](const Index& i, const auto& number) {
        return Index{number(0, i[0]), i[1]};
      });
      put("t, t", {7}, {indices({7}, 4), indices({7}, 5)}, {7},
          [](const Index& i, const auto& number) {
            return Index{number(0, i[0]), number(1, i[0])};
          });
    }
}

}  // namespace tapegrad::testing
