#include "tests/cases/drawn_cases.h"
#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

using Index = std::vector<int64_t>;

/// Options of a convolution in 1 to 3 dimensions, one number per dimension.
struct ConvSetting {
  Index stride, padding, dilation;
  int64_t groups = 1;
  Index output_padding = {};  // for transposed convolutions

  int dims() const { return int(stride.size()); }
  Attributes attributes() const {
    Attributes all{
        {"stride", stride}, {"padding", padding}, {"dilation", dilation}, {"groups", groups}};
    if (!output_padding.empty()) all.emplace("output_padding", output_padding);
    return all;
  }
};

/// Calls visit(index in x, index in y, index in weight) for every product of a convolution from x
/// to y.
template <typename Visit>
void for_each_product(const ConvSetting& s, const Shape& x, const Shape& y, const Shape& weight,
                      Visit visit) {
  const int64_t in = x[1] / s.groups, out = y[1] / s.groups;
  for_each_index(y, [&](int64_t, const Index& to) {
    for_each_index(weight, [&](int64_t, const Index& w) {
      if (w[0] != to[1]) return;
      Index from = to;
      from[1] = to[1] / out * in + w[1];
      for (int d = 0; d < s.dims(); ++d) {
        from[2 + d] = to[2 + d] * s.stride[d] + w[2 + d] * s.dilation[d] - s.padding[d];
        if (from[2 + d] < 0 || from[2 + d] >= x[2 + d]) return;
      }
      visit(from, to, w);
    });
  });
}

void add_bias(Array& y, const std::vector<Array>& in) {
  if (in.size() < 3 || in[2].values.empty()) return;
  for_each_index(y.shape,
                 [&](int64_t flat, const Index& at) { y.values[flat] += in[2].values[at[1]]; });
}

Reference convolution(const ConvSetting& s) {
  return [s](const std::vector<Array>& in) {
    Array y{{in[0].shape[0], in[1].shape[0]}, {}};
    for (int d = 0; d < s.dims(); ++d) {
      const int64_t reach = s.dilation[d] * (in[1].shape[2 + d] - 1) + 1;
      y.shape.push_back((in[0].shape[2 + d] + 2 * s.padding[d] - reach) / s.stride[d] + 1);
    }
    y.values.resize(numel(y.shape));
    for_each_product(s, in[0].shape, y.shape, in[1].shape,
                     [&](const Index& from, const Index& to, const Index& w) {
                       y.values[flat_index(y.shape, to)] +=
                           in[0].values[flat_index(in[0].shape, from)] *
                           in[1].values[flat_index(in[1].shape, w)];
                     });
    add_bias(y, in);
    return y;
  };
}

/// A transposed convolution computes the products of a convolution from its result to its input.
Reference transposed(const ConvSetting& s) {
  return [s](const std::vector<Array>& in) {
    Array y{{in[0].shape[0], in[1].shape[1] * s.groups}, {}};
    for (int d = 0; d < s.dims(); ++d)
      y.shape.push_back((in[0].shape[2 + d] - 1) * s.stride[d] - 2 * s.padding[d] +
                        s.dilation[d] * (in[1].shape[2 + d] - 1) + s.output_padding[d] + 1);
    y.values.resize(numel(y.shape));
    for_each_product(s, y.shape, in[0].shape, in[1].shape,
                     [&](const Index& to, const Index& from, const Index& w) {
                       y.values[flat_index(y.shape, to)] +=
                           in[0].values[flat_index(in[0].shape, from)] *
                           in[1].values[flat_index(in[1].shape, w)];
                     });
    add_bias(y, in);
    return y;
  };
}

OpCase conv_case(std::string op, Shape x, Shape weight, const ConvSetting& s, bool bias) {
  const bool back = !s.output_padding.empty();
  OpCase row{.op = std::move(op),
             .inputs = {Input{x}, Input{weight}},
             .attributes = s.attributes(),
             .reference = back ? transposed(s) : convolution(s),
             .tolerance = 32};
  row.inputs.resize(3);
  if (bias) row.inputs[2] = Input{{back ? weight[1] * s.groups : weight[0]}};
  return row;
}

}  // namespace

void draw_conv(OpCases& cases, Choices& choices) {
  const int dims = int(choices.between(1, 3));
  const int64_t most = dims == 1 ? 15 : dims == 2 ? 7 : 3;
  const bool back = choices.flag();
  ConvSetting s;
  s.groups = choices.of({1, 1, 2, 3});
  const int64_t in = choices.between(1, 3), out = choices.between(1, 3);  // channels per group
  Shape x{choices.between(1, 2), s.groups * in};
  Shape weight{back ? s.groups * in : s.groups * out, back ? out : in};
  for (int d = 0; d < dims; ++d) {
    const int64_t kernel = choices.between(1, 3), dilation = choices.of({1, 1, 2, 3});
    const int64_t reach = dilation * (kernel - 1) + 1;
    weight.push_back(kernel);
    s.dilation.push_back(dilation);
    s.stride.push_back(choices.between(1, 3));
    if (back) {
      s.output_padding.push_back(choices.between(0, std::max(s.stride.back(), dilation) - 1));
      // keeps the result from being empty
      s.padding.push_back(choices.between(0, (reach - 1) / 2));
      x.push_back(choices.between(1, most));
    } else {
      s.padding.push_back(choices.between(0, 3));
      x.push_back(std::max<int64_t>(reach - 2 * s.padding.back(), 1) + choices.between(0, most));
    }
  }
  cases.push_back(conv_case((back ? "conv_transpose" : "conv") + std::to_string(dims) + "d", x,
                            weight, s, choices.flag()));
  OpCase& row = cases.back();
  for (auto& input : row.inputs)
    if (input) input->fill = Fill::kIntegers;
  row.tolerance = 0;
  row.dtypes = {f64, f32};
}

void conv_nd_cases(OpCases& cases) {
  const auto add = [&](const char* op, Shape x, Shape weight, const ConvSetting& s, bool bias) {
    cases.push_back(conv_case(op, x, weight, s, bias));
  };
  add("conv1d", {2, 3, 7}, {4, 3, 3}, {{1}, {1}, {1}}, true);
  add("conv1d", {1, 4, 8}, {2, 2, 3}, {{2}, {2}, {2}, 2}, false);
  add("conv3d", {1, 2, 3, 4, 3}, {2, 2, 2, 3, 2}, {{1, 1, 1}, {0, 1, 0}, {1, 1, 1}}, true);
  add("conv3d", {2, 2, 4, 3, 3}, {2, 1, 2, 2, 1}, {{2, 1, 2}, {1, 0, 1}, {2, 1, 1}, 2}, false);
  // One channel in each group; rows are shorter and longer than a vector.
  add("conv3d", {2, 3, 3, 4, 5}, {3, 1, 2, 3, 2}, {{1, 1, 1}, {1, 2, 1}, {1, 2, 1}, 3}, true);
  add("conv3d", {1, 2, 2, 3, 19}, {2, 1, 2, 2, 3}, {{1, 1, 1}, {0, 1, 2}, {1, 1, 1}, 2}, false);
  // Vectors along rows: few channels, and several channels in each group.
  add("conv3d", {1, 2, 3, 3, 17}, {3, 2, 2, 2, 2}, {{2, 1, 1}, {1, 1, 0}, {2, 1, 1}}, true);
  add("conv3d", {2, 4, 2, 3, 4}, {6, 2, 2, 2, 3}, {{1, 1, 2}, {0, 1, 1}, {1, 1, 1}, 2}, false);

  add("conv_transpose1d", {2, 3, 4}, {3, 2, 3}, {{2}, {1}, {1}, 1, {1}}, true);
  add("conv_transpose1d", {1, 4, 3}, {4, 1, 2}, {{1}, {0}, {3}, 2, {2}}, false);
  add("conv_transpose2d", {2, 2, 3, 2}, {2, 3, 3, 2}, {{1, 1}, {0, 0}, {1, 1}, 1, {0, 0}}, true);
  add("conv_transpose2d", {1, 2, 3, 3}, {2, 2, 3, 3}, {{2, 2}, {1, 1}, {1, 1}, 1, {1, 1}}, true);
  add("conv_transpose2d", {1, 4, 2, 3}, {4, 1, 2, 3}, {{3, 1}, {1, 2}, {1, 2}, 2, {2, 0}}, false);
  add("conv_transpose2d", {1, 2, 3, 2}, {2, 1, 2, 2}, {{1, 2}, {1, 0}, {3, 2}, 1, {2, 1}}, true);
  add("conv_transpose3d", {1, 2, 2, 3, 2}, {2, 2, 2, 2, 2},
      {{2, 1, 1}, {0, 1, 0}, {1, 1, 1}, 1, {1, 0, 0}}, true);
  add("conv_transpose3d", {2, 2, 3, 2, 2}, {2, 1, 2, 1, 2},
      {{1, 2, 1}, {1, 0, 1}, {2, 1, 1}, 2, {1, 1, 0}}, false);
  add("conv_transpose3d", {1, 2, 2, 3, 4}, {2, 1, 2, 3, 2},
      {{1, 1, 1}, {1, 0, 1}, {1, 1, 1}, 2, {0, 0, 0}}, true);
}

}  // namespace tapegrad::testing
