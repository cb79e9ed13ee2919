// GradScaler: keeps small gradients of float16 from becoming 0, by a loss that is scaled up and
// gradients that are scaled down again before the step.
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
//     scaler.unscale_(optimizer);                // only to clip, or to look at gradients
//     optim::clip_grad_norm_(model, 1.0);
//     scaler.step(optimizer);                    // not when a gradient is infinite or NaN
//     scaler.update();
//   }
#pragma once

#include "optim/optimizer.h"

namespace tapegrad::optim {

struct GradScalerOptions {
  double init_scale = 65536.0;
  double growth_factor = 2.0;      // of the scale, after growth_interval steps in a row
  double backoff_factor = 0.5;     // of the scale, after a step that was skipped
  int64_t growth_interval = 2000;  // steps without an infinity or NaN
  bool enabled = true;             // else scale() and unscale_() do nothing, and step() just steps
};

class GradScaler {
 public:
  /// ArgumentError unless init_scale > 0, growth_factor > 1, 0 < backoff_factor < 1 and
  /// growth_interval > 0.
  explicit GradScaler(GradScalerOptions options = {});

  /// loss times the scale.
  Variable scale(const Variable& loss, Where where = Where::current()) const;
  /// Divides the gradients by the scale, in place. ArgumentError when that was done since the last
  /// update(), or the step was made; DTypeError for gradients of float16, which may have become 0
  /// or infinite already.
  void unscale_(Optimizer& optimizer);
  /// unscale_(), if that was not done, and optimizer.step() if all gradients are finite: whether it
  /// stepped. ArgumentError when it was called since the last update(). In a GraphedStep the device
  /// decides by itself in each run, and the answer is true.
  bool step(Optimizer& optimizer);
  /// Once after the steps of all optimizers: a smaller scale if one was skipped, a larger one after
  /// growth_interval calls without (not beyond float32). ArgumentError when nothing was unscaled.
  void update();

  /// Waits for the device.
  double get_scale() const { return scale_.item(); }
  bool is_enabled() const { return options_.enabled; }

  /// "scale", "growth_factor", "backoff_factor", "growth_interval", "growth_tracker".
  TensorMap state_dict() const;
  /// ArgumentError, and nothing changed, unless it has these, one valid number each.
  void load_state_dict(const TensorMap& state);

 private:
  struct Seen {
    const Optimizer* optimizer;
    Tensor found_inf;  // bool, where the gradients are
    bool has_stepped = false;
  };
  Seen* find(const Optimizer& optimizer);
  void move_to(Device device) const;

  // The scale lives where losses and gradients do, so that nobody has to wait for it.
  GradScalerOptions options_;
  mutable Tensor scale_;           // float64
  mutable Tensor growth_tracker_;  // int64: steps without an infinity or NaN so far
  std::vector<Seen> seen_;         // since the last update()
};

}  // namespace tapegrad::optim
