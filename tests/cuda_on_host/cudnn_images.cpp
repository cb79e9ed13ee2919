// Operations of cuDNN's graphs on images: batch normalisation in training, and pooling. Computed in
// double and rounded to the type of the result.
#include <cmath>
#include <limits>

#include "cudnn_parts.h"

namespace coh {
namespace {

TensorForm form(const Bag& operation, cudnnBackendAttributeName_t name) {
  return TensorForm(operation.part(name));
}
std::vector<double>& fresh(GraphValues& values, const TensorForm& form) {
  return values[form.id] = std::vector<double>(std::size_t(form.numel()));
}
void round_all(GraphValues& values, const TensorForm& form) {
  for (double& value : values[form.id]) value = rounded(value, form.type);
}

bool is_image(const TensorForm& x) { return x.is_stored && !x.is_number && is_float(x.type); }
/// Rounds to float32, the type of the arithmetic.
std::vector<double> in_float(std::vector<double> values) {
  for (double& value : values) value = float(value);
  return values;
}
bool are_alike(const TensorForm& x, const TensorForm& y) {
  return x.sizes == y.sizes && x.steps == y.steps && x.type == y.type;
}

/// Calls visit with each element of an image tensor, in the order of the dimensions, and its
/// channel.
template <typename Visit>
void for_each_element(const TensorForm& x, const Visit& visit) {
  const std::size_t plane = std::size_t(x.sizes[2] * x.sizes[3]);
  const std::size_t channels = std::size_t(x.sizes[1]), all = std::size_t(x.numel());
  for (std::size_t i = 0; i < all; ++i) visit(i, i / plane % channels);
}

// --------------------------------------------------------------------------------- batch norm

bool are_of_channels(const Bag& operation, std::int64_t channels,
                     std::initializer_list<cudnnBackendAttributeName_t> names) {
  for (const auto name : names) {
    if (!operation.has(name)) return false;
    const TensorForm numbers = form(operation, name);
    if (numbers.sizes != std::array<std::int64_t, 4>{1, channels, 1, 1} ||
        numbers.type != CUDNN_DATA_FLOAT || numbers.is_number)
      return false;
  }
  return true;
}

const char* why_not_norm(const Bag& operation) {
  if (operation.get<cudnnBackendNormMode_t>(CUDNN_ATTR_OPERATION_NORM_FWD_MODE) !=
          CUDNN_BATCH_NORM ||
      operation.get<cudnnBackendNormFwdPhase_t>(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE) !=
          CUDNN_NORM_FWD_TRAINING)
    return "the mode of a norm";
  const TensorForm x = form(operation, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC);
  if (!is_image(x) || x.type == CUDNN_DATA_DOUBLE ||
      !are_alike(x, form(operation, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC)))
    return "images of a norm";
  for (const auto name : {CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC,
                          CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC})
    if (!form(operation, name).is_number) return "numbers of a norm";
  return are_of_channels(
             operation, x.sizes[1],
             {CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC,
              CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC,
              CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC,
              CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC,
              CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC,
              CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC,
              CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC})
             ? nullptr
             : "numbers of channels of a norm";
}

std::vector<std::int64_t> run_norm(const Bag& operation, GraphValues& values) {
  const auto read = [&](cudnnBackendAttributeName_t name) {
    return values.at(form(operation, name).id);
  };
  const TensorForm x = form(operation, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC);
  const TensorForm y = form(operation, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC);
  const std::vector<double> from = values.at(x.id);
  const std::size_t channels = std::size_t(x.sizes[1]);
  const double count = double(x.numel() / x.sizes[1]);
  std::vector<double> mean(channels), var(channels), invstd(channels);
  for_each_element(x, [&](std::size_t i, std::size_t c) { mean[c] += from[i] / count; });
  for_each_element(x, [&](std::size_t i, std::size_t c) {
    var[c] += (from[i] - mean[c]) * (from[i] - mean[c]) / count;
  });
  const double eps = read(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC)[0];
  for (std::size_t c = 0; c < channels; ++c) invstd[c] = 1 / std::sqrt(var[c] + eps);
  const auto weight = read(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC);
  const auto bias = read(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC);
  std::vector<double>& to = fresh(values, y);
  for_each_element(x, [&](std::size_t i, std::size_t c) {
    to[i] = (from[i] - mean[c]) * invstd[c] * weight[c] + bias[c];
  });
  round_all(values, y);

  std::vector<std::int64_t> written{y.id};
  const auto write = [&](cudnnBackendAttributeName_t name, const std::vector<double>& numbers) {
    const TensorForm numbers_form = form(operation, name);
    values[numbers_form.id] = numbers;
    round_all(values, numbers_form);
    written.push_back(numbers_form.id);
  };
  const double momentum = read(CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC)[0];
  std::vector<double> next_mean = read(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC);
  std::vector<double> next_var = read(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC);
  for (std::size_t c = 0; c < channels; ++c) {
    next_mean[c] = (1 - momentum) * next_mean[c] + momentum * mean[c];
    next_var[c] = (1 - momentum) * next_var[c] + momentum * var[c] * count / (count - 1);
  }
  write(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, mean);
  write(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, invstd);
  write(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, next_mean);
  write(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, next_var);
  return written;
}

const char* why_not_norm_backward(const Bag& operation) {
  if (operation.get<cudnnBackendNormMode_t>(CUDNN_ATTR_OPERATION_NORM_BWD_MODE) != CUDNN_BATCH_NORM)
    return "the mode of a norm's gradient";
  const TensorForm x = form(operation, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC);
  if (!is_image(x) || x.type == CUDNN_DATA_DOUBLE ||
      !are_alike(x, form(operation, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC)) ||
      !are_alike(x, form(operation, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC)))
    return "images of a norm's gradient";
  return are_of_channels(
             operation, x.sizes[1],
             {CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC,
              CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC,
              CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC})
             ? nullptr
             : "numbers of channels of a norm's gradient";
}

std::vector<std::int64_t> run_norm_backward(const Bag& operation, GraphValues& values) {
  const auto read = [&](cudnnBackendAttributeName_t name) {
    return values.at(form(operation, name).id);
  };
  const TensorForm x = form(operation, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC);
  const TensorForm dx = form(operation, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC);
  const TensorForm dweight = form(operation, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC);
  const TensorForm dbias = form(operation, CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC);
  const auto from = read(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC);
  const auto dy = read(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC);
  const auto mean = read(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC);
  const auto invstd = read(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC);
  const auto weight = read(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC);
  const double count = double(x.numel() / x.sizes[1]);
  std::vector<double> sums(std::size_t(x.sizes[1])), products = sums;
  for_each_element(x, [&](std::size_t i, std::size_t c) {
    sums[c] += dy[i];
    products[c] += dy[i] * (from[i] - mean[c]) * invstd[c];
  });
  std::vector<double>& to = fresh(values, dx);
  for_each_element(x, [&](std::size_t i, std::size_t c) {
    const double normal = (from[i] - mean[c]) * invstd[c];
    to[i] = weight[c] * invstd[c] * (dy[i] - (sums[c] + normal * products[c]) / count);
  });
  values[dweight.id] = products;
  values[dbias.id] = sums;
  for (const TensorForm& each : {dx, dweight, dbias}) round_all(values, each);
  return {dx.id, dweight.id, dbias.id};
}

// ------------------------------------------------------------------------------------ pooling
// cuDNN accepts double images too, but computes in float32.

struct Windows {
  cudnnResampleMode_t mode;
  std::array<std::int64_t, 2> size, stride, before, after;

  explicit Windows(const Bag& resampling)
      : mode(resampling.get<cudnnResampleMode_t>(CUDNN_ATTR_RESAMPLE_MODE)),
        size(pair(resampling, CUDNN_ATTR_RESAMPLE_WINDOW_DIMS)),
        stride(pair(resampling, CUDNN_ATTR_RESAMPLE_STRIDES)),
        before(pair(resampling, CUDNN_ATTR_RESAMPLE_PRE_PADDINGS)),
        after(pair(resampling, CUDNN_ATTR_RESAMPLE_POST_PADDINGS)) {}

  static std::array<std::int64_t, 2> pair(const Bag& bag, cudnnBackendAttributeName_t name) {
    const auto both = bag.all<cudnnFraction_t>(name);
    return {both.at(0).numerator / both.at(0).denominator,
            both.at(1).numerator / both.at(1).denominator};
  }

  /// Calls visit with every element of x in a plane that is in a window of y, and the number of
  /// elements that the window's mean divides by.
  template <typename Visit>
  void for_each_element(const TensorForm& x, const TensorForm& y, const Visit& visit) const {
    for (std::int64_t to = 0; to < y.numel(); ++to) {
      const std::int64_t top = to / y.sizes[3] % y.sizes[2] * stride[0] - before[0];
      const std::int64_t left = to % y.sizes[3] * stride[1] - before[1];
      const std::int64_t plane = to / (y.sizes[2] * y.sizes[3]) * x.sizes[2] * x.sizes[3];
      const std::int64_t a0 = std::max<std::int64_t>(top, 0), b0 = std::max<std::int64_t>(left, 0);
      const std::int64_t a1 = std::min(top + size[0], x.sizes[2]);
      const std::int64_t b1 = std::min(left + size[1], x.sizes[3]);
      const std::int64_t count = mode == CUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING
                                     ? (a1 - a0) * (b1 - b0)
                                     : size[0] * size[1];
      for (std::int64_t a = a0; a < a1; ++a)
        for (std::int64_t b = b0; b < b1; ++b)
          visit(std::size_t(plane + a * x.sizes[3] + b), std::size_t(to), double(count));
    }
  }
};

const char* why_not_windows(const Bag& resampling, const TensorForm& x, const TensorForm& y) {
  const Windows w(resampling);
  if (!is_image(x) || !is_image(y) || x.type != y.type || x.sizes[0] != y.sizes[0] ||
      x.sizes[1] != y.sizes[1])
    return "images that are pooled";
  for (std::size_t d = 0; d < 2; ++d)
    if (y.sizes[2 + d] != (x.sizes[2 + d] + w.before[d] + w.after[d] - w.size[d]) / w.stride[d] + 1)
      return "sizes of pooling";
  // Contiguous or channels last, which are equal for images of one pixel.
  const auto is_last = [](const TensorForm& form) { return form.steps[3] == form.sizes[1]; };
  const bool has_order = x.sizes[1] > 1 && y.sizes[2] * y.sizes[3] > 1;
  if (has_order && is_last(x) != is_last(y)) return "layouts of pooling";
  return nullptr;
}

const char* why_not_pooling(const Bag& operation) {
  return why_not_windows(operation.part(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC),
                         form(operation, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC),
                         form(operation, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC));
}
std::vector<std::int64_t> run_pooling(const Bag& operation, GraphValues& values) {
  const Windows w(operation.part(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC));
  const TensorForm x = form(operation, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC);
  const TensorForm y = form(operation, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC);
  const std::vector<double> from = in_float(values.at(x.id));
  std::vector<double>& to = fresh(values, y);
  const bool is_max = w.mode == CUDNN_RESAMPLE_MAXPOOL;
  if (is_max) std::fill(to.begin(), to.end(), -std::numeric_limits<double>::infinity());
  std::vector<double> counts(to.size());
  w.for_each_element(x, y, [&](std::size_t i, std::size_t j, double count) {
    counts[j] = count;
    if (!is_max)
      to[j] += from[i];
    else if (from[i] > to[j] || std::isnan(from[i]))
      to[j] = from[i];
  });
  for (std::size_t j = 0; !is_max && j < to.size(); ++j) to[j] /= counts[j];
  round_all(values, y);
  return {y.id};
}

const char* why_not_pooling_backward(const Bag& operation) {
  const Bag& resampling = operation.part(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC);
  if (Windows(resampling).mode == CUDNN_RESAMPLE_MAXPOOL) return "a maximum's gradient";
  const TensorForm dx = form(operation, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC);
  const TensorForm dy = form(operation, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC);
  if (!are_alike(dx, form(operation, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_XDESC)) ||
      !are_alike(dy, form(operation, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_YDESC)))
    return "images whose gradients those of pooling are";
  return why_not_windows(resampling, dx, dy);
}
std::vector<std::int64_t> run_pooling_backward(const Bag& operation, GraphValues& values) {
  const Windows w(operation.part(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC));
  const TensorForm dx = form(operation, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC);
  const TensorForm dy = form(operation, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC);
  const std::vector<double> from = in_float(values.at(dy.id));
  std::vector<double>& to = fresh(values, dx);
  w.for_each_element(dx, dy,
                     [&](std::size_t i, std::size_t j, double count) { to[i] += from[j] / count; });
  round_all(values, dx);
  return {dx.id};
}

}  // namespace

const char* why_not_resampling(const Bag& resampling) {
  for (const auto name : {CUDNN_ATTR_RESAMPLE_WINDOW_DIMS, CUDNN_ATTR_RESAMPLE_STRIDES,
                          CUDNN_ATTR_RESAMPLE_PRE_PADDINGS, CUDNN_ATTR_RESAMPLE_POST_PADDINGS})
    if (!resampling.has(name) || resampling.all<cudnnFraction_t>(name).size() != 2)
      return "windows of two dimensions";
  if (resampling.get<std::int64_t>(CUDNN_ATTR_RESAMPLE_SPATIAL_DIMS) != 2 ||
      resampling.get<cudnnDataType_t>(CUDNN_ATTR_RESAMPLE_COMP_TYPE) != CUDNN_DATA_FLOAT)
    return "what pooling is computed in";
  const Windows w(resampling);
  const bool is_max = w.mode == CUDNN_RESAMPLE_MAXPOOL;
  if (resampling.get<cudnnPaddingMode_t>(CUDNN_ATTR_RESAMPLE_PADDING_MODE) !=
      (is_max ? CUDNN_NEG_INF_PAD : CUDNN_ZERO_PAD))
    return "the padding of pooling";
  if (resampling.get<cudnnNanPropagation_t>(CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION) !=
      CUDNN_PROPAGATE_NAN)
    return "pooling that loses NaN";
  for (std::size_t d = 0; d < 2; ++d)
    if (w.size[d] < 1 || w.stride[d] < 1 || w.before[d] < 0 || w.before[d] >= w.size[d] ||
        w.after[d] != w.before[d])
      return "windows of pooling";
  return nullptr;
}

const char* why_not_of_images(const Bag& operation) {
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
      return why_not_norm(operation);
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
      return why_not_norm_backward(operation);
    case CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR:
      return why_not_pooling(operation);
    case CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR:
      return why_not_pooling_backward(operation);
    default:
      fail("cuDNN: an operation that cuda_on_host does not have");
  }
}

std::vector<std::int64_t> run_of_images(const Bag& operation, GraphValues& values) {
  switch (operation.type) {
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
      return run_norm(operation, values);
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
      return run_norm_backward(operation, values);
    case CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR:
      return run_pooling(operation, values);
    default:
      return run_pooling_backward(operation, values);
  }
}

}  // namespace coh
