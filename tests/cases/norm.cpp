#include <cmath>

#include "tests/cases/drawn_cases.h"
#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

/// (x - mean) / sqrt(var + eps) * weight + bias. group(index) returns the group that is normalised
/// together, and parameter(index) the index into weight and bias, which are optional.
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

/// Normalises groups of consecutive channels of each example; instance_norm has one channel per
/// group. Inputs `first` and `first` + 1 are weight and bias.
Reference group_norm_reference(int64_t groups, bool affine, size_t first, double eps) {
  return [=](const std::vector<Array>& inputs) {
    const Array& x = inputs[0];
    const int64_t size = x.shape[1] / groups;
    return normalized(
        x, x.shape[0] * groups,
        [=](const std::vector<int64_t>& index) { return index[0] * groups + index[1] / size; },
        [](const std::vector<int64_t>& index) { return index[1]; },
        affine ? &inputs[first] : nullptr, affine ? &inputs[first + 1] : nullptr, eps);
  };
}

/// x / sqrt(mean of x^2 over the last `size` elements + eps) * weight.
Reference rms_norm_reference(int64_t size, double eps) {
  return [=](const std::vector<Array>& inputs) {
    Array y = inputs[0];
    for (size_t row = 0; row < y.values.size(); row += size_t(size)) {
      double sum = 0;
      for (size_t i = row; i < row + size_t(size); ++i) sum += y.values[i] * y.values[i];
      for (size_t i = row; i < row + size_t(size); ++i) {
        y.values[i] /= std::sqrt(sum / double(size) + eps);
        if (!inputs[1].values.empty()) y.values[i] *= inputs[1].values[i - row];
      }
    }
    return y;
  };
}

Array local_response(const Array& x, int64_t size, double alpha, double beta, double k) {
  Array y = x;
  for_each_index(x.shape, [&](int64_t flat, std::vector<int64_t> index) {
    const int64_t middle = index[1];
    double sum = 0;
    for (int64_t c = middle - size / 2; c <= middle + (size - 1) / 2; ++c) {
      if (c < 0 || c >= x.shape[1]) continue;
      index[1] = c;
      const double v = x.values[flat_index(x.shape, index)];
      sum += v * v;
    }
    y.values[flat] /= std::pow(k + alpha * sum / double(size), beta);
  });
  return y;
}

OpCase group_norm(Shape shape, int64_t groups, bool affine) {
  OpCase row{.op = "group_norm", .inputs = {Input{shape}}};
  row.inputs.resize(3);
  if (affine) row.inputs[1] = row.inputs[2] = Input{{shape[1]}};
  row.attributes = {{"num_groups", groups}, {"eps", 1e-3}};
  row.reference = group_norm_reference(groups, affine, 1, 1e-3);
  row.tolerance = 16;
  return row;
}

/// Returns a case of batch_norm or instance_norm, which have equal inputs.
OpCase of_channels(const char* op, Shape shape, bool running, bool affine) {
  OpCase row{.op = op, .inputs = {Input{shape}}};
  row.inputs.resize(5);
  if (running) {
    row.inputs[1] = Input{.shape = {shape[1]}, .grad = false};
    row.inputs[2] = Input{.shape = {shape[1]}, .fill = Fill::kPositive, .grad = false};
  }
  if (affine) row.inputs[3] = row.inputs[4] = Input{{shape[1]}};
  row.attributes = {{"eps", 1e-3}};
  row.tolerance = 16;
  return row;
}
OpCase instance_norm(Shape shape, bool running, bool affine) {
  OpCase row = of_channels("instance_norm", shape, running, affine);
  row.reference = group_norm_reference(shape[1], affine, 3, 1e-3);
  return row;
}
OpCase batch_norm(Shape shape, bool training, bool running, bool affine) {
  OpCase row = of_channels("batch_norm", shape, running, affine);
  row.attributes["training"] = training;
  row.reference = batch_norm_reference(training, affine, 1e-3);
  return row;
}

/// Like a model in mixed precision: parameters and statistics are float32.
OpCase with_float_parameters(OpCase row) {
  row.dtypes = {bf16, f16};
  row.before = [](std::vector<Variable> inputs) {
    for (size_t i = 1; i < inputs.size(); ++i)
      if (inputs[i].defined() && inputs[0].dtype() != f64) inputs[i] = inputs[i].to(f32);
    return inputs;
  };
  return row;
}

/// Returns a case of layer_norm (which also has a bias) or rms_norm over the last dimensions.
OpCase of_last(const char* op, Shape shape, int dims, bool affine) {
  const std::vector<int64_t> sizes(shape.end() - dims, shape.end());
  Shape parameters;
  for (int64_t size : sizes) parameters.push_back(size);
  const bool rms = std::string(op) == "rms_norm";
  OpCase row{.op = op, .inputs = {Input{shape}}};
  row.inputs.resize(rms ? 2 : 3);
  for (size_t i = 1; affine && i < row.inputs.size(); ++i) row.inputs[i] = Input{parameters};
  row.attributes = {{"normalized_shape", sizes}, {"eps", 1e-3}};
  row.reference =
      rms ? rms_norm_reference(numel(parameters), 1e-3) : layer_norm_reference(dims, affine, 1e-3);
  row.tolerance = 16;
  return row;
}

OpCase response_norm(Shape shape, int64_t size) {
  return {
      .op = "local_response_norm",
      .inputs = {Input{shape}},
      .attributes = {{"size", size}, {"alpha", 0.5}, {"beta", 0.6}, {"k", 2.0}},
      .reference =
          [=](const std::vector<Array>& in) { return local_response(in[0], size, 0.5, 0.6, 2.0); },
      .tolerance = 16};
}

}  // namespace

void draw_norm(OpCases& cases, Choices& choices) {
  const bool affine = choices.flag(), running = choices.flag();
  Shape shape = draw_shape(choices, int(choices.between(3, 5)), 5);
  shape[2] += 1;  // at least two values per channel
  switch (choices.below(6)) {
    case 0:
      shape[1] *= choices.between(1, 3);
      for (int64_t groups = 3; groups > 0; --groups)
        if (shape[1] % groups == 0) return cases.push_back(group_norm(shape, groups, affine));
      return;
    case 1:
      return cases.push_back(instance_norm(shape, running, affine));
    case 2:
      return cases.push_back(batch_norm(shape, /*training=*/true, running, affine));
    case 3:
      return cases.push_back(batch_norm(shape, /*training=*/false, /*running=*/true, affine));
    case 4:
      return cases.push_back(of_last(choices.flag() ? "layer_norm" : "rms_norm", shape,
                                     int(choices.between(1, shape.rank())), affine));
    default:
      return cases.push_back(response_norm(shape, choices.between(1, 6)));
  }
}

void norm_cases(OpCases& cases) {
  const auto add = [&](Shape shape, bool training, bool running, bool affine) {
    cases.push_back(batch_norm(shape, training, running, affine));
  };
  add({4, 3}, true, false, true);
  add({3, 2, 4}, true, true, true);
  add({2, 2, 2, 3}, true, true, true);
  add({4, 3}, true, true, false);
  add({4, 3}, false, true, true);
  add({2, 3, 2, 2}, false, true, true);
  add({2, 3, 2}, false, true, false);
  cases.push_back(with_float_parameters(batch_norm({3, 2, 4}, true, true, true)));
  cases.push_back(with_float_parameters(batch_norm({4, 3}, false, true, true)));
  cases.push_back(with_float_parameters(instance_norm({2, 3, 4}, true, true)));
  for (const bool training : {true, false}) {
    OpCase row = batch_norm({2, 16, 32, 32}, training, true, true);
    row.dtypes = {f32, bf16};
    row.before = packed_images;
    cases.push_back(row);
  }
  for (OpCase row : {group_norm({2, 32, 24, 24}, 8, true), group_norm({1, 32, 34, 34}, 1, false),
                     instance_norm({2, 16, 34, 34}, true, true)}) {
    row.dtypes = {f32, bf16};
    row.before = packed_images;
    cases.push_back(row);
  }

  cases.push_back(of_last("layer_norm", {3, 4}, 1, true));
  cases.push_back(of_last("layer_norm", {2, 3, 4}, 2, true));
  cases.push_back(of_last("layer_norm", {2, 3, 4}, 1, false));
  cases.push_back(of_last("layer_norm", {0, 4}, 1, true));
  cases.push_back(of_last("layer_norm", {3, 37}, 1, true));

  cases.push_back(group_norm({2, 4, 3}, 2, true));
  cases.push_back(group_norm({3, 6}, 2, true));
  cases.push_back(group_norm({2, 4, 2, 2}, 1, false));
  cases.push_back(group_norm({2, 3, 4}, 3, true));
  cases.push_back(instance_norm({2, 3, 4}, false, true));
  cases.push_back(instance_norm({2, 3, 2, 2}, true, true));
  cases.push_back(instance_norm({2, 2, 5}, false, false));
  cases.push_back(of_last("rms_norm", {3, 4}, 1, true));
  cases.push_back(of_last("rms_norm", {2, 3, 4}, 2, true));
  cases.push_back(of_last("rms_norm", {2, 3, 4}, 1, false));
  for (int64_t size : {1, 2, 3}) cases.push_back(response_norm({2, 4, 3}, size));
}

}  // namespace tapegrad::testing
