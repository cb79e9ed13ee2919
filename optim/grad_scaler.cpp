#include "optim/grad_scaler.h"

#include <cmath>
#include <limits>

#include "core/autograd/internal/capture.h"
#include "core/autograd/sparse_gradient.h"
#include "core/dispatch/kernels.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/update.h"
#include "optim/internal/gradient_runs.h"

namespace tapegrad::optim {
namespace {

constexpr double kLargest = std::numeric_limits<float>::max();

void check(const GradScalerOptions& o) {
  const ErrorLine line(o.by_name.where);
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

GradScaler::GradScaler(GradScalerOptions options)
    : options_(options),
      scale_(Tensor::full({}, options.init_scale, f64)),
      growth_tracker_(Tensor::full({}, 0, i64)) {
  check(options);
}

void GradScaler::move_to(Device device) const {
  if (scale_.device() == device) return;
  if (Capture* capture = Capture::current())
    capture->give_up("GradScaler: the scale comes to the device in the step");
  scale_ = scale_.to(device);
  growth_tracker_ = growth_tracker_.to(device);
}

GradScaler::Seen* GradScaler::find(const Optimizer& optimizer) {
  for (Seen& seen : seen_)
    if (seen.optimizer == optimizer.id()) return &seen;
  return nullptr;
}

Variable GradScaler::scale(const Variable& loss, Where where) const {
  if (!options_.enabled) return loss;
  has_scaled_ = true;
  move_to(loss.device());
  const DType wide = loss.dtype() == f64 ? f64 : f32;
  return mul({loss.to(wide, where), where}, {Variable(scale_.to(wide)), where});
}

void GradScaler::unscale_(Optimizer& optimizer, Where where) {
  const ErrorLine line(where);
  if (!options_.enabled) return;
  if (const Seen* seen = find(optimizer))
    fail<ArgumentError>("GradScaler: unscale_ ", seen->has_stepped ? "after step" : "twice",
                        " since the last update");
  if (!has_scaled_)
    fail<ArgumentError>(
        "GradScaler: the gradients are not scaled; write scaler.scale(loss).backward()");
  const std::vector<Variable> params = optimizer.parameters();
  if (params.empty()) fail<ArgumentError>("GradScaler: an optimizer that was moved from");
  for (const Variable& param : params)
    if (param.dtype() == f16 && gradient_values(param).defined())
      fail<DTypeError>("GradScaler: unscale_ of float16 gradients; keep parameters in float32");
  const NoGrad no_grad;
  const Device device = params.front().device();
  move_to(device);
  Tensor found_inf = Tensor::full({}, false, boolean, device);
  for (const detail::GradientRun& run : detail::gradient_runs(params)) {
    const Device where = run.dense.device();
    Tensor found = where == device ? found_inf : Tensor::full({}, false, boolean, where);
    kernels::unscale(run.dense, scale_.to(where), found);
    run.write_back();
    if (where != device) kernels::logical_or(found_inf, found.to(device), found_inf);
  }
  seen_.push_back({optimizer.id(), found_inf});
}

bool GradScaler::step(Optimizer& optimizer, Where where) {
  const ErrorLine line(where);
  if (!options_.enabled) {
    optimizer.step();
    return true;
  }
  if (find(optimizer) == nullptr) unscale_(optimizer);
  Seen& seen = *find(optimizer);
  if (seen.has_stepped) fail<ArgumentError>("GradScaler: step twice since the last update");
  seen.has_stepped = true;
  optimizer.prepare_to_skip(seen.found_inf.device());
  // A step that is skipped makes no state, and whether it is skipped is known after the capture.
  if (Capture* capture = Capture::current(); capture != nullptr && optimizer.lacks_state())
    capture->give_up(optimizer.kind() + ": the state of a parameter is made in the step");
  if (Capture::current() != nullptr) {
    optimizer.step_unless(seen.found_inf);
    return true;
  }
  const bool is_finite = seen.found_inf.item() == 0;
  if (is_finite) optimizer.step();
  return is_finite;
}

void GradScaler::update(Where where) {
  const ErrorLine line(where);
  if (!options_.enabled) return;
  if (seen_.empty()) fail<ArgumentError>("GradScaler: update, but nothing was unscaled before");
  Tensor found_inf = seen_.front().found_inf;
  for (size_t i = 1; i < seen_.size(); ++i)
    kernels::logical_or(found_inf, seen_[i].found_inf.to(found_inf.device()), found_inf);
  move_to(found_inf.device());
  kernels::update_scale(
      scale_, growth_tracker_, found_inf,
      {options_.growth_factor, options_.backoff_factor, options_.growth_interval});
  seen_.clear();
}

TensorMap GradScaler::state_dict() const {
  return {{"scale", scale_.to(cpu).clone()},
          {"growth_factor", Tensor::full({}, options_.growth_factor, f64)},
          {"backoff_factor", Tensor::full({}, options_.backoff_factor, f64)},
          {"growth_interval", Tensor::full({}, options_.growth_interval, i64)},
          {"growth_tracker", growth_tracker_.to(cpu).clone()}};
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
  kernels::fill(scale_, loaded.init_scale);  // in place, since a recorded graph reads this memory
  kernels::fill(growth_tracker_, tracker);
  seen_.clear();
}

double GradScaler::get_scale() const { return scale_.item(); }
}  // namespace tapegrad::optim
