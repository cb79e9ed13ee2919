#include <algorithm>

#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

/// A number for the height and one for the width of a window.
struct Pair {
  int64_t height, width;
};

struct Conv2dSetting {
  Pair stride{1, 1}, padding{0, 0}, dilation{1, 1};
  int64_t groups = 1;

  int64_t rows(int64_t size, int64_t kernel) const {
    return (size + 2 * padding.height - dilation.height * (kernel - 1) - 1) / stride.height + 1;
  }
  int64_t columns(int64_t size, int64_t kernel) const {
    return (size + 2 * padding.width - dilation.width * (kernel - 1) - 1) / stride.width + 1;
  }
  Attributes attributes() const {
    const auto pair = [](Pair p) { return std::vector<int64_t>{p.height, p.width}; };
    return {{"stride", pair(stride)}, {"padding", pair(padding)}, {"dilation", pair(dilation)}};
  }
};

/// Returns the element of an image that window (i, j) reads at (u, v); 0 in the padding.
double seen(const Array& x, const Conv2dSetting& s, int64_t n, int64_t c, int64_t i, int64_t j,
            int64_t u, int64_t v) {
  const int64_t row = i * s.stride.height + u * s.dilation.height - s.padding.height;
  const int64_t column = j * s.stride.width + v * s.dilation.width - s.padding.width;
  if (row < 0 || row >= x.shape[2] || column < 0 || column >= x.shape[3]) return 0;
  return x.values.at(size_t(((n * x.shape[1] + c) * x.shape[2] + row) * x.shape[3] + column));
}

Reference conv2d(const Conv2dSetting& s) {
  return [s](const std::vector<Array>& in) {
    const Array &x = in[0], &w = in[1];
    const bool bias = in.size() > 2 && !in[2].values.empty();
    const int64_t out = w.shape[0], depth = w.shape[1];
    Array y{{x.shape[0], out, s.rows(x.shape[2], w.shape[2]), s.columns(x.shape[3], w.shape[3])},
            {}};
    for_each_index(y.shape, [&](int64_t, const std::vector<int64_t>& at) {
      const int64_t o = at[1], group = o / (out / s.groups);
      double sum = bias ? in[2].values[size_t(o)] : 0;
      for_each_index({depth, w.shape[2], w.shape[3]},
                     [&](int64_t flat, const std::vector<int64_t>& k) {
                       const int64_t size = depth * w.shape[2] * w.shape[3];
                       sum += w.values[size_t(o * size + flat)] *
                              seen(x, s, at[0], group * depth + k[0], at[2], at[3], k[1], k[2]);
                     });
      y.values.push_back(sum);
    });
    return y;
  };
}

Reference unfold(const Conv2dSetting& s, Pair kernel) {
  return [s, kernel](const std::vector<Array>& in) {
    const Shape& x = in[0].shape;
    const int64_t rows = s.rows(x[2], kernel.height), columns = s.columns(x[3], kernel.width);
    Array y{{x[0], x[1] * kernel.height * kernel.width, rows * columns}, {}};
    for_each_index({x[0], x[1], kernel.height, kernel.width, rows, columns},
                   [&](int64_t, const std::vector<int64_t>& at) {
                     y.values.push_back(seen(in[0], s, at[0], at[1], at[4], at[5], at[2], at[3]));
                   });
    return y;
  };
}

/// Adds every element of a patch to the position that unfold read it from.
Reference fold(const Conv2dSetting& s, Pair kernel, Pair size) {
  return [s, kernel, size](const std::vector<Array>& in) {
    const Shape& from = in[0].shape;
    const int64_t channels = from[1] / (kernel.height * kernel.width);
    const int64_t rows = s.rows(size.height, kernel.height);
    const int64_t columns = s.columns(size.width, kernel.width);
    Array y{{from[0], channels, size.height, size.width}, {}};
    y.values.resize(size_t(numel(y.shape)));
    for_each_index({from[0], channels, kernel.height, kernel.width, rows, columns},
                   [&](int64_t flat, const std::vector<int64_t>& at) {
                     const int64_t row =
                         at[4] * s.stride.height + at[2] * s.dilation.height - s.padding.height;
                     const int64_t column =
                         at[5] * s.stride.width + at[3] * s.dilation.width - s.padding.width;
                     if (row < 0 || row >= size.height || column < 0 || column >= size.width)
                       return;
                     y.values[size_t(flat_index(y.shape, {at[0], at[1], row, column}))] +=
                         in[0].values[size_t(flat)];
                   });
    return y;
  };
}

OpCase conv_case(const Conv2dSetting& s, Shape x, Shape weight, bool bias) {
  OpCase row{.op = "conv2d",
             .inputs = {Input{x}, Input{weight}, std::nullopt},
             .attributes = s.attributes(),
             .reference = conv2d(s),
             .tolerance = 32};
  if (bias) row.inputs[2] = Input{{weight[0]}};
  row.attributes.emplace("groups", s.groups);
  return row;
}

}  // namespace

void conv_cases(OpCases& cases) {
  cases.push_back(conv_case({}, {2, 2, 4, 4}, {3, 2, 3, 3}, true));
  cases.push_back(conv_case({}, {1, 3, 3, 4}, {2, 3, 1, 1}, false));
  cases.push_back(
      conv_case({.stride = {2, 1}, .padding = {1, 2}}, {2, 1, 5, 4}, {2, 1, 3, 2}, true));
  cases.push_back(conv_case({.dilation = {2, 1}}, {1, 2, 5, 4}, {2, 2, 2, 3}, false));
  cases.push_back(conv_case({.stride = {2, 2}, .padding = {1, 1}, .groups = 2}, {1, 4, 4, 4},
                            {4, 2, 3, 3}, true));
  cases.push_back(conv_case({.padding = {1, 1}, .groups = 3}, {1, 3, 3, 3}, {6, 1, 3, 3}, false));
  // Few channels per group: depthwise, several results per channel, groups across vectors.
  cases.push_back(conv_case({.padding = {1, 1}, .groups = 17}, {2, 17, 4, 3}, {17, 1, 3, 3}, true));
  cases.push_back(conv_case({.stride = {2, 2}, .padding = {1, 1}, .groups = 4}, {1, 4, 5, 6},
                            {4, 1, 3, 3}, false));
  cases.push_back(conv_case({.padding = {2, 4}, .dilation = {1, 2}, .groups = 3}, {1, 3, 4, 5},
                            {3, 1, 5, 5}, true));
  cases.push_back(conv_case({.stride = {1, 3}, .dilation = {2, 1}, .groups = 2}, {1, 2, 5, 8},
                            {2, 1, 2, 2}, false));
  cases.push_back(conv_case({.padding = {1, 0}, .groups = 6}, {1, 18, 2, 3}, {12, 3, 2, 1}, true));
  cases.push_back(conv_case({.padding = {0, 1}, .groups = 5}, {1, 10, 1, 3}, {20, 2, 1, 3}, false));
  // Image widths for which the CPU has a kernel for few channels, and others.
  for (const Shape& x : {Shape{2, 1, 3, 9}, Shape{1, 2, 4, 4}})
    for (const bool bias : {true, false}) {
      OpCase row = conv_case({.padding = {1, 1}}, x, {3, x[1], 3, 3}, bias);
      row.op = "conv2d_relu";
      row.reference = [plain = row.reference](const std::vector<Array>& in) {
        Array y = plain(in);
        for (double& value : y.values) value = std::max(value, 0.0);
        return y;
      };
      cases.push_back(row);
    }
  // Few channels that are sums over many elements.
  cases.push_back(conv_case({.padding = {1, 2}}, {1, 8, 2, 33}, {3, 8, 3, 3}, true));
  cases.push_back(conv_case({.padding = {1, 0}}, {2, 23, 2, 17}, {1, 23, 1, 3}, false));

  const Conv2dSetting plain, wide{.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}};
  for (const Conv2dSetting& s : {plain, wide}) {
    OpCase row{.op = "unfold",
               .inputs = {Input{{2, 2, 4, 5}}},
               .attributes = s.attributes(),
               .reference = unfold(s, {2, 3})};
    row.attributes.emplace("kernel_size", std::vector<int64_t>{2, 3});
    cases.push_back(row);

    const int64_t patches = s.rows(4, 2) * s.columns(5, 3);
    row.op = "fold";
    row.inputs = {Input{{2, 12, patches}}};
    row.reference = fold(s, {2, 3}, {4, 5});
    row.attributes.emplace("output_size", std::vector<int64_t>{4, 5});
    cases.push_back(row);
  }
}

}  // namespace tapegrad::testing
