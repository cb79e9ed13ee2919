// Muon: momentum with orthogonalized updates, for matrices.
#pragma once

#include <array>

#include "core/base/choice.h"
#include "optim/custom.h"

namespace tapegrad::optim {

/// Factor of the rate for a matrix [a, b]: sqrt(max(1, a / b)); 0.2 sqrt(max(a, b)), which makes
/// rates of AdamW suitable; or sqrt(a / b).
enum class MuonRate { kOriginal, kMatchRmsAdamW, kSpectralUnclamped };
constexpr auto choice_names(MuonRate) {
  return std::to_array<ChoiceName<MuonRate>>(
      {{"original", MuonRate::kOriginal},
       {"match_rms_adamw", MuonRate::kMatchRmsAdamW},
       {"spectral_unclamped", MuonRate::kSpectralUnclamped}});
}
struct MuonOptions {
  double lr = 1e-3;
  double weight_decay = 0.1;
  double momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> ns_coefficients = {3.4445, -4.775, 2.0315};
  double eps = 1e-7;  // lower bound of the norm by which an update is divided
  int ns_steps = 5;
  Choice<MuonRate> adjust_lr_fn = MuonRate::kOriginal;
};
/// Momentum whose update is replaced by a nearly orthogonal matrix (Jordan et al. 2024):
///
///   m = momentum m + (1 - momentum) g; u = nesterov ? momentum m + (1 - momentum) g : m
///   o = u / |u|; ns_steps times: s = o o^T, o = (a I + b s + c s^2) o   (Newton and Schulz)
///   p = (1 - lr weight_decay) p - lr rate o
///
/// Parameters are matrices; use another optimizer, such as AdamW, for vectors, embeddings and the
/// last layer. Throws ArgumentError for parameters of another rank. Names and defaults are
/// PyTorch's. PyTorch computes o in bfloat16; here o has the dtype of the momentum (float32 or
/// float64). State: momentum_buffer.
class Muon final : public CustomOptimizer {
 public:
  static constexpr bool kNeedsShapes = true;  // dist::ShardedOptimizer refuses the class
  explicit Muon(Params params, MuonOptions options = {});
  Muon(Params params, Rate auto lr) : Muon(std::move(params), MuonOptions{.lr = double(lr)}) {}

 private:
  void check_group(const Group& group) const override;
  void update(Parameter& parameter) override;
  Variable orthogonal(const Variable& x) const;

  MuonOptions options_;
};

}  // namespace tapegrad::optim
