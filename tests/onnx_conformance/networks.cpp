// Convolutions, normalisations, losses.
#include <cmath>

#include "ops/binary.h"
#include "ops/bitwise.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/loss.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/resample.h"
#include "ops/softmax.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/onnx_conformance/windows.h"

namespace tapegrad::onnx_conformance {
namespace {

using N = const Node&;

Variable with_bias(const Variable& y, const Variable& bias) {
  Shape shape = Dims::filled(y.rank(), 1);
  shape[1] = bias.numel();
  return y + reshape(bias, shape);
}

Variable transposed_convolution(N n) {
  const Windows w(n, n[0], n[1]);
  Variable y =
      run_op("conv_transpose", w.dims(), {n[0], n[1]},
             {{"stride", w.stride}, {"dilation", w.dilation}, {"groups", n.integer("group", 1)}});
  // Computes without padding, then crops or pads with zeros at both ends.
  Ints extra = n.ints("output_padding", Ints(w.dims(), 0)), wanted = n.ints("output_shape");
  Ints pads = n.ints("pads", Ints(2 * w.dims(), 0)), amounts;
  const std::string automatic = n.text("auto_pad", "NOTSET");
  for (size_t i = w.dims(); i-- > 0;) {
    const int64_t full = y.size(2 + int(i)) + extra[i];
    if (!wanted.empty() || automatic.starts_with("SAME")) {
      const int64_t size = wanted.empty() ? n[0].size(2 + int(i)) * w.stride[i] : wanted[i];
      const int64_t total = full - size;
      const int64_t down = total >> 1;  // rounds down also if it is negative
      const int64_t half = automatic == "SAME_UPPER" ? down : total - down;
      pads[i] = half;
      pads[i + w.dims()] = total - half;
    }
    amounts.insert(amounts.end(), {-pads[i], extra[i] - pads[i + w.dims()]});
  }
  y = pad(y, amounts);
  return n.has(2) ? with_bias(y, n[2]) : y;
}

Values batch_normalized(N n) {
  const double eps = n.real("epsilon", 1e-5), momentum = n.real("momentum", 0.9);
  if (!n.flag("training_mode", false))
    return {batch_norm(n[0], n[3], n[4], n[1], n[2], {.eps = eps})};
  Dims dims;
  for (int i = 0; i < n[0].rank(); ++i)
    if (i != 1) dims.push_back(i);
  // ONNX's running variance uses the population variance, unlike PyTorch's.
  const Variable y = batch_norm(n[0], {}, {}, n[1], n[2], {.training = true, .eps = eps});
  const auto moved = [&](const Variable& running, const Variable& here) {
    return running * momentum + here * (1 - momentum);
  };
  return {y, moved(n[3], mean(n[0], dims)), moved(n[4], var(n[0], dims, {.correction = 0}))};
}

Values layer_normalized(N n) {
  const int axis = normalize_dim("LayerNormalization", n.axis(-1), n[0].rank());
  const double eps = n.real("epsilon", 1e-5);
  Shape shape;
  Dims dims;
  for (int i = axis; i < n[0].rank(); ++i) {
    shape.push_back(n[0].size(i));
    dims.push_back(i);
  }
  const Variable y = layer_norm(n[0], shape, n[1], n.has(2) ? n[2] : Variable(), eps);
  const Variable variance = var(n[0], dims, {.correction = 0, .keepdim = true});
  return {y, mean(n[0], dims, true), rsqrt(variance + eps)};
}

Variable mean_variance_normalized(N n) {
  const Ints axes = n.ints("axes", {0, 2, 3});
  Dims dims;
  for (int64_t axis : axes) dims.push_back(axis);
  const Variable centred = n[0] - mean(n[0], dims, true);
  return centred / (std(n[0], dims, {.correction = 0, .keepdim = true}) + 1e-9);
}

Reduction reduction_of(N n) {
  const std::string name = n.text("reduction", "mean");
  return name == "none" ? Reduction::kNone : name == "sum" ? Reduction::kSum : Reduction::kMean;
}

Values softmax_cross_entropy(N n) {
  const Variable loss = cross_entropy(n[0], n[1],
                                      {.weight = n.has(2) ? n[2] : Variable(),
                                       .ignore_index = n.integer("ignore_index", -100),
                                       .reduction = reduction_of(n)});
  return {loss, log_softmax(n[0], 1)};
}

Variable negative_log_likelihood(N n) {
  return nll_loss(n[0], n[1],
                  {.weight = n.has(2) ? n[2] : Variable(),
                   .ignore_index = n.integer("ignore_index", -100),
                   .reduction = reduction_of(n)});
}

Values dropped(N n) {
  const double ratio = n.has(1) ? n[1].item() : n.real("ratio", 0.5);
  const bool training = n.has(2) && n[2].item() != 0;
  if (training && ratio > 0) throw Unsupported("random numbers of another generator");
  return {n[0], full(n[0].shape(), 1, {.dtype = boolean})};
}

Variable sampled(N n) {
  const std::string mode = n.text("mode", "bilinear"), padding = n.text("padding_mode", "zeros");
  return grid_sample(n[0], n[1],
                     {.mode = mode == "nearest"   ? SampleMode::kNearest
                              : mode == "bicubic" ? SampleMode::kCubic
                                                  : SampleMode::kLinear,
                      .padding_mode = padding == "border"       ? GridPadding::kBorder
                                      : padding == "reflection" ? GridPadding::kReflection
                                                                : GridPadding::kZeros,
                      .align_corners = n.flag("align_corners", false)});
}

// Steps of optimizers. Inputs: the rate, the step number, then parameters, gradients and states.

Values momentum_step(N n) {
  const double alpha = n.real("alpha", 0), beta = n.real("beta", 0);
  const double decay = n.real("norm_coefficient", 0);
  const bool nesterov = n.text("mode", "standard") == "nesterov", first = n[1].item() == 0;
  const size_t count = (n.inputs.size() - 2) / 3;
  Values y(2 * count);
  for (size_t i = 0; i < count; ++i) {
    const Variable &x = n[2 + i], &v = n[2 + 2 * count + i];
    const Variable g = n[2 + count + i] + decay * x;
    y[count + i] = alpha * v + (first ? 1 : beta) * g;
    y[i] = x - n[0] * (nesterov ? g + alpha * y[count + i] : y[count + i]);
  }
  return y;
}

Values adagrad_step(N n) {
  const double decay = n.real("norm_coefficient", 0), eps = n.real("epsilon", 1e-6);
  const double slowing = n.real("decay_factor", 0);
  const size_t count = (n.inputs.size() - 2) / 3;
  const double rate = n[0].item() / (1 + n[1].item() * slowing);
  Values y(2 * count);
  for (size_t i = 0; i < count; ++i) {
    const Variable& x = n[2 + i];
    const Variable g = n[2 + count + i] + decay * x;
    y[count + i] = n[2 + 2 * count + i] + g * g;
    y[i] = x - rate * g / (sqrt(y[count + i]) + eps);
  }
  return y;
}

Values adam_step(N n) {
  const double alpha = n.real("alpha", 0.9), beta = n.real("beta", 0.999);
  const double decay = n.real("norm_coefficient", 0), after = n.real("norm_coefficient_post", 0);
  const double eps = n.real("epsilon", 1e-6), step = n[1].item();
  const size_t count = (n.inputs.size() - 2) / 4;
  const double rate =
      step == 0 ? n[0].item()
                : n[0].item() * std::sqrt(1 - std::pow(beta, step)) / (1 - std::pow(alpha, step));
  Values y(3 * count);
  for (size_t i = 0; i < count; ++i) {
    const Variable& x = n[2 + i];
    const Variable g = n[2 + count + i] + decay * x;
    const Variable m = alpha * n[2 + 2 * count + i] + (1 - alpha) * g;
    const Variable v = beta * n[2 + 3 * count + i] + (1 - beta) * g * g;
    y[i] = (1 - after) * (x - rate * m / (sqrt(v) + eps));
    y[count + i] = m;
    y[2 * count + i] = v;
  }
  return y;
}

}  // namespace

void add_networks(Operators& table) {
  add(table, "Conv", [](N n) { return convolution(n, n[0], n[1], n.has(2) ? n[2] : Variable()); });
  add(table, "ConvTranspose", transposed_convolution);
  add(table, "InstanceNormalization", [](N n) {
    return instance_norm(n[0], {}, {}, n[1], n[2], {.eps = n.real("epsilon", 1e-5)});
  });
  add(table, "LRN", [](N n) {
    return local_response_norm(
        n[0], n.integer("size", 1),
        {.alpha = n.real("alpha", 1e-4), .beta = n.real("beta", 0.75), .k = n.real("bias", 1)});
  });
  add(table, "MeanVarianceNormalization", mean_variance_normalized);
  add(table, "NegativeLogLikelihoodLoss", negative_log_likelihood);
  add(table, "GridSample", sampled);
  table["BatchNormalization"] = batch_normalized;
  table["LayerNormalization"] = layer_normalized;
  table["SoftmaxCrossEntropyLoss"] = softmax_cross_entropy;
  table["Dropout"] = dropped;
  table["Momentum"] = momentum_step;
  table["Adagrad"] = adagrad_step;
  table["Adam"] = adam_step;
}

}  // namespace tapegrad::onnx_conformance
