#include "nn/norm.h"

#include <sstream>

#include "core/tape.h"
#include "nn/weighted.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/norm.h"

namespace tapegrad::nn {

template <typename Self>
BatchNorm<Self>::BatchNorm(BatchNormOptions options) : options_(options) {
  if (options.affine) {
    weight = empty({0}, {.requires_grad = true});
    bias = empty({0}, {.requires_grad = true});
  }
  if (options.track_running_stats) {
    running_mean = empty({0});
    running_var = empty({0});
    num_batches_tracked = zeros({}, {.dtype = i64});
  }
  if (options.num_features == 0) return;
  require_option(Self::kName, ".num_features", options.num_features);
  allocate(options.num_features);
}

template <typename Self>
void BatchNorm<Self>::members(Members& m) {
  m("weight", weight)("bias", bias);
  m.buffer("running_mean", running_mean).buffer("running_var", running_var);
  m.buffer("num_batches_tracked", num_batches_tracked);
}

template <typename Self>
bool BatchNorm<Self>::is_inferred() const {
  const Variable& any = weight ? weight : running_mean;
  return !any || any.numel() > 0;
}

template <typename Self>
void BatchNorm<Self>::allocate(int64_t channels) const {
  const auto set = [&](const Variable& x, double value) {
    if (x) x.rebind(Tensor::full({channels}, value, x.dtype(), x.device()));
  };
  set(bias, 0);
  set(running_mean, 0);
  set(running_var, 1);
  set(weight, 1);
}

template <typename Self>
Variable BatchNorm<Self>::normalize(const Variable& x, Where where) const {
  if (!is_inferred()) [[unlikely]]
    allocate(x.size(1));
  const bool training = this->is_training();
  const Variable y = batch_norm(x, running_mean, running_var, weight, bias,
                                {.training = training || !options_.track_running_stats,
                                 .momentum = options_.momentum,
                                 .eps = options_.eps},
                                where);
  if (training && num_batches_tracked && x.numel() > 0) {
    Variable count = num_batches_tracked;
    const NoGrad no_grad;
    add_(count, 1);
  }
  return y;
}

template <typename Self>
std::string BatchNorm<Self>::options() const {
  std::ostringstream text;
  if (weight && is_inferred()) text << "num_features=" << weight.numel() << ", ";
  text << "eps=" << options_.eps << ", momentum=" << options_.momentum;
  if (!options_.affine) text << ", affine=false";
  if (!options_.track_running_stats) text << ", track_running_stats=false";
  return text.str();
}

template class BatchNorm<BatchNorm1d>;
template class BatchNorm<BatchNorm2d>;

Variable BatchNorm1d::forward(const Variable& x, Where where) const {
  if (x.rank() != 2 && x.rank() != 3)
    fail<ShapeError>("BatchNorm1d: an input is [n, c] or [n, c, l], not ", x.shape());
  return normalize(x, where);
}
Variable BatchNorm2d::forward(const Variable& x, Where where) const {
  if (x.rank() != 4) fail<ShapeError>("BatchNorm2d: an input is [n, c, h, w], not ", x.shape());
  return normalize(x, where);
}

LayerNorm::LayerNorm(LayerNormOptions options) : options_(options) {
  if (options.normalized_shape.rank() == 0)
    fail<ArgumentError>("LayerNorm: the option .normalized_shape is missing");
  if (!options.elementwise_affine) return;
  weight = ones(options.normalized_shape, {.requires_grad = true});
  if (options.bias) bias = zeros(options.normalized_shape, {.requires_grad = true});
}

Variable LayerNorm::forward(const Variable& x, Where where) const {
  return layer_norm(x, options_.normalized_shape, weight, bias, options_.eps, where);
}

std::string LayerNorm::options() const {
  std::ostringstream text;
  text << options_.normalized_shape << ", eps=" << options_.eps;
  if (!options_.elementwise_affine) text << ", elementwise_affine=false";
  return text.str();
}

}  // namespace tapegrad::nn
