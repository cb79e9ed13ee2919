#include "nn/norm.h"

#include <utility>

#include "core/base/internal/classic_text.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/internal/leaf_changes.h"
#include "core/tape/recording.h"
#include "nn/weighted.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/norm.h"
#include "ops/rearrange.h"
#include "ops/view.h"

namespace tapegrad::nn {

template <typename Self>
BatchNorm<Self>::BatchNorm(BatchNormOptions options) : options_(options) {
  const ErrorLine line(options.by_name.where);
  require_not_negative(Self::kName, ".eps", options.eps);
  set_momentum(options.momentum);
  if (options.affine) {
    weight = empty({0}, {.requires_grad = true});
    if (options.bias) bias = empty({0}, {.requires_grad = true});
  }
  if (options.track_running_stats) {
    running_mean = empty({0});
    running_var = empty({0});
    num_batches_tracked = zeros({}, {.dtype = i64});
  }
  if (options.dtype) Module::to(*options.dtype);
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
  const Variable& any = weight.defined() ? weight : running_mean;
  return !any.defined() || any.numel() > 0;
}

template <typename Self>
void BatchNorm<Self>::allocate(int64_t channels) const {
  const auto set = [&](const Variable& x, double value) {
    if (x.defined()) x.rebind(Tensor::full({channels}, value, x.dtype(), x.device()));
  };
  set(bias, 0);
  set(running_mean, 0);
  set(running_var, 1);
  set(weight, 1);
}

template <typename Self>
void BatchNorm<Self>::set_momentum(std::optional<double> momentum) {
  if (momentum) require_share(Self::kName, ".momentum", *momentum);
  if (!momentum && Self::kName.starts_with("Instance"))
    fail<ArgumentError>(Self::kName, ": .momentum is missing");
  options_.momentum = momentum;
  // A captured step has the momentum as a number, and writes the statistics.
  if (running_mean.defined()) tapegrad::detail::note_leaf_change(running_mean.value().storage());
}

template <typename Self>
void BatchNorm<Self>::reset_running_stats() {
  if (running_mean.defined()) running_mean.fill_(0.0);
  if (running_var.defined()) running_var.fill_(1.0);
  if (num_batches_tracked.defined()) num_batches_tracked.fill_(0);
}

template <typename Self>
Variable BatchNorm<Self>::normalize(const Variable& x, Where where) const {
  this->infer_once([&] { allocate(x.size(1)); });
  const bool training = this->is_training();
  if constexpr (Self::kName.starts_with("Instance"))
    return instance_norm(x, running_mean, running_var, weight, bias,
                         {.use_input_stats = training || !options_.track_running_stats,
                          .momentum = options_.momentum.value_or(0.1),
                          .eps = options_.eps},
                         where);
  // Without a momentum, all batches have one weight; their number is read by kernels only.
  const bool is_average = training && !options_.momentum && num_batches_tracked.defined();
  const Variable mean = is_average ? zeros_like(running_mean) : running_mean;
  const Variable var = is_average ? zeros_like(running_var) : running_var;
  const Variable y = batch_norm(x, mean, var, weight, bias,
                                {.training = training || !options_.track_running_stats,
                                 .momentum = options_.momentum.value_or(1.0),
                                 .eps = options_.eps},
                                where);
  if (training && num_batches_tracked.defined() && x.numel() > 0 && !is_recomputing()) {
    Variable count = num_batches_tracked;
    const NoGrad no_grad;
    add_(count, 1);
    if (is_average) {
      const Variable share = 1.0 / count.to(running_mean.dtype());
      for (auto [running, batch] : {std::pair(running_mean, mean), std::pair(running_var, var)})
        copy_(running, running * (1.0 - share) + batch * share);
    }
  }
  return y;
}

template <typename Self>
std::string BatchNorm<Self>::options() const {
  ClassicText text;
  if (weight.defined() && is_inferred()) text << "num_features=" << weight.numel() << ", ";
  text << "eps=" << options_.eps << ", momentum=";
  options_.momentum ? text << *options_.momentum : text << "none";
  if (!options_.affine) text << ", affine=false";
  if (!options_.track_running_stats) text << ", track_running_stats=false";
  return text.str();
}

template class BatchNorm<BatchNorm1d>;
template class BatchNorm<BatchNorm2d>;
template class BatchNorm<BatchNorm3d>;
template class BatchNorm<InstanceNorm1d>;
template class BatchNorm<InstanceNorm2d>;
template class BatchNorm<InstanceNorm3d>;

Variable BatchNorm1d::forward(const Variable& x, Where where) const {
  if (x.rank() != 2 && x.rank() != 3)
    fail<ShapeError>("BatchNorm1d: an input is [n, c] or [n, c, l], not ", x.shape());
  return normalize(x, where);
}
Variable BatchNorm2d::forward(const Variable& x, Where where) const {
  if (x.rank() != 4) fail<ShapeError>("BatchNorm2d: an input is [n, c, h, w], not ", x.shape());
  return normalize(x, where);
}

Variable BatchNorm3d::forward(const Variable& x, Where where) const {
  if (x.rank() != 5) fail<ShapeError>("BatchNorm3d: an input is [n, c, d, h, w], not ", x.shape());
  return normalize(x, where);
}

static BatchNormOptions of_instances(InstanceNormOptions o) {
  return {.by_name = o.by_name,
          .num_features = o.num_features,
          .eps = o.eps,
          .momentum = o.momentum,
          .affine = o.affine,
          .track_running_stats = o.track_running_stats,
          .bias = o.bias};
}
InstanceNorm1d::InstanceNorm1d(InstanceNormOptions options) : BatchNorm(of_instances(options)) {}
InstanceNorm1d::InstanceNorm1d(int64_t num_features, double eps, double momentum, bool affine,
                               bool track_running_stats, Where where)
    : BatchNorm(of_instances({{where}, num_features, eps, momentum, affine, track_running_stats})) {
}
InstanceNorm2d::InstanceNorm2d(InstanceNormOptions options) : BatchNorm(of_instances(options)) {}
InstanceNorm2d::InstanceNorm2d(int64_t num_features, double eps, double momentum, bool affine,
                               bool track_running_stats, Where where)
    : BatchNorm(of_instances({{where}, num_features, eps, momentum, affine, track_running_stats})) {
}
InstanceNorm3d::InstanceNorm3d(InstanceNormOptions options) : BatchNorm(of_instances(options)) {}
InstanceNorm3d::InstanceNorm3d(int64_t num_features, double eps, double momentum, bool affine,
                               bool track_running_stats, Where where)
    : BatchNorm(of_instances({{where}, num_features, eps, momentum, affine, track_running_stats})) {
}

/// Calls `normalize` with a batch; `sizes` names its dimensions. An input without the first
/// dimension becomes a batch of one instance.
template <typename Normalize>
static Variable as_batch(const Variable& x, int rank, std::string_view name, std::string_view sizes,
                         const Normalize& normalize) {
  if (x.rank() == rank - 1) return squeeze(normalize(unsqueeze(x, 0)), 0);
  if (x.rank() != rank)
    fail<ShapeError>(name, ": an input is [n, ", sizes, "] or [", sizes, "], not ", x.shape());
  return normalize(x);
}
Variable InstanceNorm1d::forward(const Variable& x, Where where) const {
  return as_batch(x, 3, kName, "c, l",
                  [&](const Variable& batch) { return normalize(batch, where); });
}
Variable InstanceNorm2d::forward(const Variable& x, Where where) const {
  return as_batch(x, 4, kName, "c, h, w",
                  [&](const Variable& batch) { return normalize(batch, where); });
}
Variable InstanceNorm3d::forward(const Variable& x, Where where) const {
  return as_batch(x, 5, kName, "c, d, h, w",
                  [&](const Variable& batch) { return normalize(batch, where); });
}

GroupNorm::GroupNorm(int64_t num_groups, int64_t num_channels, double eps, bool affine, Where where)
    : GroupNorm(GroupNormOptions{num_groups, num_channels, eps, affine}, where) {}
GroupNorm::GroupNorm(GroupNormOptions options, Where where) : options_(options) {
  const ErrorLine line(where);
  require_option(kName, ".num_groups", options.num_groups);
  require_option(kName, ".num_channels", options.num_channels);
  require_not_negative(kName, ".eps", options.eps);
  if (options.num_channels % options.num_groups != 0)
    fail<ArgumentError>("GroupNorm: ", options.num_groups, " groups do not divide ",
                        options.num_channels, " channels");
  if (!options.affine) return;
  weight = ones({options.num_channels}, {.requires_grad = true});
  if (options.bias) bias = zeros({options.num_channels}, {.requires_grad = true});
}

Variable GroupNorm::forward(const Variable& x, Where where) const {
  if (x.rank() < 2 || x.size(1) != options_.num_channels)
    fail<ShapeError>("GroupNorm: an input has ", options_.num_channels, " channels, not ",
                     x.shape());
  return group_norm(x, options_.num_groups, weight, bias, options_.eps, where);
}

std::string GroupNorm::options() const {
  ClassicText text;
  text << "num_groups=" << options_.num_groups << ", num_channels=" << options_.num_channels
       << ", eps=" << options_.eps;
  if (!options_.affine) text << ", affine=false";
  return text.str();
}

RMSNorm::RMSNorm(int64_t size, Where where)
    : RMSNorm(RMSNormOptions{.normalized_shape = {size}}, where) {}
RMSNorm::RMSNorm(RMSNormOptions options, Where where) : options_(options) {
  const ErrorLine line(where);
  if (options.normalized_shape.rank() == 0)
    fail<ArgumentError>("RMSNorm: the option .normalized_shape is missing");
  if (options.eps) require_not_negative(kName, ".eps", *options.eps);
  if (options.elementwise_affine) weight = ones(options.normalized_shape, {.requires_grad = true});
}

Variable RMSNorm::forward(const Variable& x, Where where) const {
  return rms_norm(x, options_.normalized_shape, weight, options_.eps, where);
}

Variable LocalResponseNorm::forward(const Variable& x, Where where) const {
  return local_response_norm(x, size_, {.alpha = alpha_, .beta = beta_, .k = k_}, where);
}

LayerNorm::LayerNorm(LayerNormOptions options, Where where) : options_(options) {
  const ErrorLine line(where);
  if (options.normalized_shape.rank() == 0)
    fail<ArgumentError>("LayerNorm: the option .normalized_shape is missing");
  require_not_negative(kName, ".eps", options.eps);
  if (!options.elementwise_affine) return;
  weight = ones(options.normalized_shape, {.requires_grad = true});
  if (options.bias) bias = zeros(options.normalized_shape, {.requires_grad = true});
  if (options.dtype) Module::to(*options.dtype);
}

Variable LayerNorm::forward(const Variable& x, Where where) const {
  return layer_norm(x, options_.normalized_shape, weight, bias, options_.eps, where);
}

std::string LayerNorm::options() const {
  ClassicText text;
  text << options_.normalized_shape << ", eps=" << options_.eps;
  if (!options_.elementwise_affine) text << ", elementwise_affine=false";
  return text.str();
}

BatchNorm1d::BatchNorm1d(BatchNormOptions options) : BatchNorm(options) {}
BatchNorm1d::BatchNorm1d(int64_t num_features, double eps, std::optional<double> momentum,
                         bool affine, bool track_running_stats, Where where)
    : BatchNorm({{where}, num_features, eps, momentum, affine, track_running_stats}) {}
BatchNorm2d::BatchNorm2d(BatchNormOptions options) : BatchNorm(options) {}
BatchNorm2d::BatchNorm2d(int64_t num_features, double eps, std::optional<double> momentum,
                         bool affine, bool track_running_stats, Where where)
    : BatchNorm({{where}, num_features, eps, momentum, affine, track_running_stats}) {}
BatchNorm3d::BatchNorm3d(BatchNormOptions options) : BatchNorm(options) {}
BatchNorm3d::BatchNorm3d(int64_t num_features, double eps, std::optional<double> momentum,
                         bool affine, bool track_running_stats, Where where)
    : BatchNorm({{where}, num_features, eps, momentum, affine, track_running_stats}) {}
LocalResponseNorm::LocalResponseNorm(int64_t size, double alpha, double beta, double k, Where where)
    : size_(size), alpha_(alpha), beta_(beta), k_(k) {
  require_option(kind(), "size", size, where);
}

BatchNorm1d::BatchNorm1d(int64_t num_features, BatchNormOptions options)
    : BatchNorm1d(detail::with_features(num_features, options)) {}
BatchNorm2d::BatchNorm2d(int64_t num_features, BatchNormOptions options)
    : BatchNorm2d(detail::with_features(num_features, options)) {}
BatchNorm3d::BatchNorm3d(int64_t num_features, BatchNormOptions options)
    : BatchNorm3d(detail::with_features(num_features, options)) {}
InstanceNorm1d::InstanceNorm1d(int64_t num_features, InstanceNormOptions options)
    : InstanceNorm1d(detail::with_features(num_features, options)) {}
InstanceNorm2d::InstanceNorm2d(int64_t num_features, InstanceNormOptions options)
    : InstanceNorm2d(detail::with_features(num_features, options)) {}
InstanceNorm3d::InstanceNorm3d(int64_t num_features, InstanceNormOptions options)
    : InstanceNorm3d(detail::with_features(num_features, options)) {}
GroupNorm::GroupNorm(int64_t num_groups, int64_t num_channels, GroupNormOptions options,
                     Where where)
    : GroupNorm(GroupNormOptions{.num_groups = num_groups,
                                 .num_channels = num_channels,
                                 .eps = options.eps,
                                 .affine = options.affine,
                                 .bias = options.bias},
                where) {}
void GroupNorm::members(Members& m) { m("weight", weight)("bias", bias); }
RMSNorm::RMSNorm(int64_t size, RMSNormOptions options, Where where)
    : RMSNorm(detail::with_shape({size}, options), where) {}
void RMSNorm::members(Members& m) { m("weight", weight); }
void LayerNorm::members(Members& m) { m("weight", weight)("bias", bias); }
template class Model<BatchNorm2d, Module, false>;
template class Model<LayerNorm, Module, false>;

}  // namespace tapegrad::nn
