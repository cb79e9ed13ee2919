#include <cmath>

#include "tests/op_case.h"

namespace tapegrad::testing {
namespace {

/// (x - mean) / sqrt(var + eps) * weight + bias, where group(index) names what is normalised
/// together, and parameter(index) the element of weight and bias; these may be left out.
Array normalized(const Array& x, int64_t groups,
                 const std::function<int64_t(const std::vector<int64_t>&)>& group,
                 const std::function<int64_t(const std::vector<int64_t>&)>& parameter,
                 const Array* weight, const Array* bias, double eps, const Array* mean = nullptr,
                 const Array* var = nullptr) {
  std::vector<double> means(groups), vars(groups), counts(groups);
  for_each_index(x.shape, [&](int64_t flat, const std::vector<int64_t>& index) {
    means[group(index)] += x.values[flat];
    counts[group(index)] += 1;
  });
  for (int64_t i = 0; i < groups; ++i) means[i] = mean ? mean->values[i] : means[i] / counts[i];
  for_each_index(x.shape, [&](int64_t flat, const std::vector<int64_t>& index) {
    const double d = x.values[flat] - means[group(index)];
    vars[group(index)] += d * d;
  });
  for (int64_t i = 0; i < groups; ++i) vars[i] = var ? var->values[i] : vars[i] / counts[i];
  Array y = x;
  for_each_index(x.shape, [&](int64_t flat, const std::vector<int64_t>& index) {
    const int64_t g = group(index), p = parameter(index);
    y.values[flat] = (x.values[flat] - means[g]) / std::sqrt(vars[g] + eps);
    if (weight) y.values[flat] *= weight->values[p];
    if (bias) y.values[flat] += bias->values[p];
  });
  return y;
}

Reference batch_norm_reference(bool training, bool affine, double eps) {
  return [=](const std::vector<Array>& inputs) {
    const Array& x = inputs[0];
    const auto channel = [](const std::vector<int64_t>& index) { return index[1]; };
    return normalized(x, x.shape[1], channel, channel, affine ? &inputs[3] : nullptr,
                      affine ? &inputs[4] : nullptr, eps, training ? nullptr : &inputs[1],
                      training ? nullptr : &inputs[2]);
  };
}

Reference layer_norm_reference(int dims, bool affine, double eps) {
  return [=](const std::vector<Array>& inputs) {
    const Array& x = inputs[0];
    Shape outer, inner;
    for (int i = 0; i < x.shape.rank(); ++i)
      (i < x.shape.rank() - dims ? outer : inner).push_back(x.shape[i]);
    return normalized(
        x, numel(outer),
        [&](const std::vector<int64_t>& index) {
          return flat_index(outer, {index.begin(), index.begin() + outer.rank()});
        },
        [&](const std::vector<int64_t>& index) {
          return flat_index(inner, {index.begin() + outer.rank(), index.end()});
        },
        affine ? &inputs[1] : nullptr, affine ? &inputs[2] : nullptr, eps);
  };
}

}  // namespace

void norm_cases(OpCases& cases) {
  const auto statistics = [](int64_t channels, Fill fill) {
    return Input{.shape = {channels}, .fill = fill, .grad = false};
  };
  const auto add = [&](Shape shape, bool training, bool running, bool affine) {
    OpCase row{.op = "batch_norm", .inputs = {Input{shape}}};
    row.inputs.resize(5);
    const int64_t channels = shape[1];
    if (running) {
      row.inputs[1] = statistics(channels, Fill::kNormal);
      row.inputs[2] = statistics(channels, Fill::kPositive);
    }
    if (affine) row.inputs[3] = row.inputs[4] = Input{{channels}};
    row.attributes = {{"training", training}, {"eps", 1e-3}};
    row.reference = batch_norm_reference(training, affine, 1e-3);
    row.tolerance = 16;
    cases.push_back(row);
  };
  add({4, 3}, true, false, true);
  add({3, 2, 4}, true, true, true);
  add({2, 2, 2, 3}, true, true, true);
  add({4, 3}, true, true, false);
  add({4, 3}, false, true, true);
  add({2, 3, 2, 2}, false, true, true);
  add({2, 3, 2}, false, true, false);

  const auto add_layer = [&](Shape shape, int dims, bool affine) {
    std::vector<int64_t> sizes(shape.end() - dims, shape.end());
    Shape parameters;
    for (int64_t size : sizes) parameters.push_back(size);
    OpCase row{.op = "layer_norm", .inputs = {Input{shape}}};
    row.inputs.resize(3);
    if (affine) row.inputs[1] = row.inputs[2] = Input{parameters};
    row.attributes = {{"normalized_shape", sizes}, {"eps", 1e-3}};
    row.reference = layer_norm_reference(dims, affine, 1e-3);
    row.tolerance = 16;
    cases.push_back(row);
  };
  add_layer({3, 4}, 1, true);
  add_layer({2, 3, 4}, 2, true);
  add_layer({2, 3, 4}, 1, false);
  add_layer({0, 4}, 1, true);
  add_layer({3, 37}, 1, true);
}

}  // namespace tapegrad::testing
