// GradScaler: keeps small float16 gradients from underflowing to 0. The loss is scaled up before
// the backward pass, and the gradients are scaled down before the step.
//
//   optim::GradScaler scaler;
//   for (auto& [x, y] : batches) {
//     optimizer.zero_grad();
//     Variable loss;
//     {
//       const Autocast amp(f16);
//       loss = cross_entropy(model(x), y);
//     }
//     scaler.scale(loss).backward();
//     scaler.unscale_(optimizer);                // only needed to clip or read gradients
//     optim::clip_grad_norm_(model, 1.0);
//     scaler.step(optimizer);                    // skipped if a gradient is infinite or NaN
//     scaler.update();
//   }
#pragma once

#include "optim/optimizer.h"

namespace tapegrad::optim {

struct GradScalerOptions {
  ByName by_name = {};
  double init_scale = 65536.0;
  double growth_factor = 2.0;      // multiplies the scale after growth_interval successful steps
  double backoff_factor = 0.5;     // multiplies the scale after a skipped step
  int64_t growth_interval = 2000;  // number of steps without an infinity or NaN before growth
  bool enabled = true;             // if false, step() always steps and nothing is scaled
};

class GradScaler {
 public:
  /// Throws ArgumentError unless init_scale > 0, growth_factor > 1, 0 < backoff_factor < 1 and
  /// growth_interval > 0.
  explicit GradScaler(GradScalerOptions options = {});
  /// Overload for PyTorch's GradScaler("cuda"). Throws ArgumentError for a name that is not a
  /// device's. The scale is on the device of the losses, whatever the name is.
  template <std::convertible_to<Device> D>
  explicit GradScaler(const D& device, GradScalerOptions options = {}) : GradScaler(options) {
    static_cast<void>(Device(device));
  }

  /// Returns loss times the scale.
  Variable scale(const Variable& loss, Where where = Where::current()) const;
  /// Divides the gradients by the scale, in place. Throws ArgumentError if called twice, or after
  /// step(), without update() in between, and if no loss was scaled before. Throws DTypeError for
  /// float16 gradients, which may already have underflowed to 0 or overflowed.
  void unscale_(Optimizer& optimizer, Where where = Where::current());
  /// Calls unscale_() unless it was called, then optimizer.step() if all gradients are finite.
  /// Returns whether the optimizer made a step. Throws ArgumentError if called twice without
  /// update() in between. In a GraphedStep the device decides in each replay, and the result is
  /// true.
  bool step(Optimizer& optimizer, Where where = Where::current());
  /// Call once after the steps of all optimizers. Reduces the scale if a step was skipped;
  /// increases it after growth_interval calls without a skip, up to the range of float32. Throws
  /// ArgumentError if no gradients were unscaled.
  void update(Where where = Where::current());

  /// Returns the scale. Waits for the device.
  double get_scale() const;
  bool is_enabled() const { return options_.enabled; }

  /// Returns "scale", "growth_factor", "backoff_factor", "growth_interval" and "growth_tracker".
  TensorMap state_dict() const;
  /// Throws ArgumentError, and changes nothing, unless `state` has exactly these entries with one
  /// valid number each.
  void load_state_dict(const TensorMap& state);
  template <std::same_as<Tensor> T>
  auto load_state_dict(const T&) {
    static_assert(
        tapegrad::detail::kNever<T>,
        "load_state_dict(run[\"scaler\"]): write load_state_dict(part_of(run, \"scaler\"))");
  }

 private:
  struct Seen {
    uint64_t optimizer;  // id of the optimizer
    Tensor found_inf;    // bool, on the device of the gradients
    bool has_stepped = false;
  };
  Seen* find(const Optimizer& optimizer);
  void move_to(Device device) const;

  // The scale is on the device of losses and gradients, so that the host does not wait for it.
  GradScalerOptions options_;
  mutable Tensor scale_;           // float64
  mutable Tensor growth_tracker_;  // int64: number of successful steps since the scale changed
  mutable bool has_scaled_ = false;
  std::vector<Seen> seen_;  // optimizers unscaled since the last update()
};

}  // namespace tapegrad::optim

namespace tapegrad {
using optim::GradScaler;
namespace amp {
using optim::GradScaler;
}
}  // namespace tapegrad
