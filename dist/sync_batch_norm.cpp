#include "dist/sync_batch_norm.h"

#include "core/base/error.h"
#include "core/tape/recording.h"
#include "dist/collective_ops.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/norm.h"
#include "ops/reduce.h"
#include "ops/unary.h"

namespace tapegrad::dist {

SyncBatchNorm::SyncBatchNorm(nn::BatchNormOptions options, const Communicator& world)
    : options_(options), world_(world) {
  if (options.num_features < 1)
    fail<ArgumentError>("SyncBatchNorm: .num_features is ", options.num_features,
                        ", not at least 1");
  const Shape shape{options.num_features};
  if (options.affine) {
    weight = ones(shape, {.requires_grad = true});
    bias = zeros(shape, {.requires_grad = true});
  }
  if (options.track_running_stats) {
    running_mean = zeros(shape);
    running_var = ones(shape);
    num_batches_tracked = zeros({}, {.dtype = i64});
  }
}

void SyncBatchNorm::members(nn::Members& m) {
  m("weight", weight)("bias", bias);
  m.buffer("running_mean", running_mean).buffer("running_var", running_var);
  m.buffer("num_batches_tracked", num_batches_tracked);
}

std::string SyncBatchNorm::options() const {
  return "num_features=" + std::to_string(options_.num_features);
}

Variable SyncBatchNorm::forward(const Variable& x, Where where) const {
  if (x.rank() < 2 || x.size(1) != options_.num_features)
    fail<ShapeError>("SyncBatchNorm: an input is [n, ", options_.num_features, ", ...], not ",
                     x.shape());
  const bool training = is_training();
  if (!training && options_.track_running_stats)
    return batch_norm(x, running_mean, running_var, weight, bias,
                      {.training = false, .eps = options_.eps}, where);
  Dims others;
  Shape per_channel;
  for (int dim = 0; dim < x.rank(); ++dim) {
    if (dim != 1) others.push_back(dim);
    per_channel.push_back(dim == 1 ? options_.num_features : 1);
  }
  const Tensor total = Tensor::full({}, x.numel() / options_.num_features, i64);
  world_.all_reduce(total, {.name = "number of values per channel"});
  const double count = total.item();
  if (count <= 1)
    fail<ArgumentError>("SyncBatchNorm: ", count, " values per channel on all ranks together");
  const Variable mean = all_reduce(sum(x, others, /*keepdim=*/true, where), world_, where) / count;
  const Variable centered = x - mean;
  const Variable var =
      all_reduce(sum(square(centered), others, /*keepdim=*/true, where), world_, where) / count;
  if (training && options_.track_running_stats && !is_recomputing()) {
    const NoGrad no_grad;
    const Shape flat{options_.num_features};
    const double momentum =
        options_.momentum ? *options_.momentum : 1 / (num_batches_tracked.item() + 1);
    const auto move = [&](Variable running, const Variable& to) {
      running.mul_(1 - momentum);
      running.add_(to.detach().reshape(flat).to(running.dtype()) * momentum);
    };
    move(running_mean, mean);
    move(running_var, var * (count / (count - 1)));
    Variable tracked = num_batches_tracked;
    tracked.add_(1);
  }
  Variable y = centered / sqrt(var + options_.eps);
  if (weight.defined()) y = y * weight.reshape(per_channel) + bias.reshape(per_channel);
  return y;
}

}  // namespace tapegrad::dist
