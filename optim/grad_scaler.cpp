#include "optim/grad_scaler.h"

#include <cmath>
#include <limits>

#include "core/tape.h"
#include "ops/binary.h"
#include "ops/reduce.h"
#include "ops/unary.h"

namespace tapegrad::optim {
namespace {

constexpr double kLargest = std::numeric_limits<float>::max();

void check(const GradScalerOptions& o) {
  if (!(o.init_scale > 0 && o.init_scale <= kLargest))
    fail<ArgumentError>("GradScaler: the scale is ", o.init_scale, ", not a positive float32");
  if (!(o.growth_factor > 1 && std::isfinite(o.growth_factor)))
    fail<ArgumentError>("GradScaler: growth_factor is ", o.growth_factor, ", not > 1");
  if (!(o.backoff_factor > 0 && o.backoff_factor < 1))
    fail<ArgumentError>("GradScaler: backoff_factor is ", o.backoff_factor, ", not in (0, 1)");
  if (o.growth_interval < 1)
    fail<ArgumentError>("GradScaler: growth_interval is ", o.growth_interval, ", not > 0");
}

}  // namespace

GradScaler::GradScaler(GradScalerOptions options) : options_(options), scale_(options.init_scale) {
  check(options);
}

GradScaler::Seen* GradScaler::find(const Optimizer& optimizer) {
  for (Seen& seen : seen_)
    if (seen.optimizer == &optimizer) return &seen;
  return nullptr;
}

Variable GradScaler::scale(const Variable& loss, Where where) const {
  return options_.enabled ? mul({loss, where}, {scale_, where}) : loss;
}

void GradScaler::unscale_(Optimizer& optimizer) {
  if (!options_.enabled) return;
  if (const Seen* seen = find(optimizer))
    fail<ArgumentError>("GradScaler: unscale_ ", seen->has_stepped ? "after step" : "twice",
                        " since the last update");
  const std::vector<Variable> params = optimizer.parameters();
  for (const Variable& param : params)
    if (param.dtype() == f16 && param.grad())
      fail<DTypeError>("GradScaler: unscale_ of float16 gradients; keep parameters in float32");
  const NoGrad no_grad;
  Variable finite;  // stays on the device until the end
  for (const Variable& param : params)
    if (Variable grad = param.grad()) {
      mul_(grad, 1 / scale_);
      const Variable here = all(isfinite(grad));
      finite = finite ? logical_and(finite, here.to(finite.device())) : here;
    }
  seen_.push_back({&optimizer, !finite || finite.item() != 0});
}

bool GradScaler::step(Optimizer& optimizer) {
  if (!options_.enabled) {
    optimizer.step();
    return true;
  }
  if (find(optimizer) == nullptr) unscale_(optimizer);
  Seen& seen = *find(optimizer);
  if (seen.has_stepped) fail<ArgumentError>("GradScaler: step twice since the last update");
  seen.has_stepped = true;
  if (seen.is_finite) optimizer.step();
  return seen.is_finite;
}

void GradScaler::update() {
  if (!options_.enabled) return;
  if (seen_.empty()) fail<ArgumentError>("GradScaler: update, but nothing was unscaled before");
  bool is_finite = true;
  for (const Seen& seen : seen_) is_finite = is_finite && seen.is_finite;
  seen_.clear();
  if (!is_finite) {
    scale_ *= options_.backoff_factor;
    growth_tracker_ = 0;
  } else if (++growth_tracker_ == options_.growth_interval) {
    if (const double larger = scale_ * options_.growth_factor; larger <= kLargest) scale_ = larger;
    growth_tracker_ = 0;
  }
}

TensorMap GradScaler::state_dict() const {
  return {{"scale", Tensor::full({}, scale_, f64)},
          {"growth_factor", Tensor::full({}, options_.growth_factor, f64)},
          {"backoff_factor", Tensor::full({}, options_.backoff_factor, f64)},
          {"growth_interval", Tensor::full({}, options_.growth_interval, i64)},
          {"growth_tracker", Tensor::full({}, growth_tracker_, i64)}};
}

void GradScaler::load_state_dict(const TensorMap& state) {
  const auto number = [&](const char* name) {
    const auto found = state.find(name);
    if (found == state.end() || found->second.numel() != 1)
      fail<ArgumentError>("GradScaler: load_state_dict: ", name, " is missing or not one number");
    return found->second.item();
  };
  const GradScalerOptions loaded{.init_scale = number("scale"),
                                 .growth_factor = number("growth_factor"),
                                 .backoff_factor = number("backoff_factor"),
                                 .growth_interval = int64_t(number("growth_interval")),
                                 .enabled = options_.enabled};
  const int64_t tracker = int64_t(number("growth_tracker"));
  check(loaded);
  if (tracker < 0) fail<ArgumentError>("GradScaler: load_state_dict: growth_tracker is ", tracker);
  options_ = loaded;
  scale_ = loaded.init_scale;
  growth_tracker_ = tracker;
  seen_.clear();
}

}  // namespace tapegrad::optim
