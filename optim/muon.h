// Muon: momentum with orthogonal updates, for matrices.
#pragma once

#include <array>

#include "core/base/choice.h"
#include "optim/custom.h"

namespace tapegrad::optim {

/// By which the rate of a matrix [a, b] is multiplied: sqrt(max(1, a / b)); 0.2 sqrt(max(a, b)),
/// so that rates of AdamW serve; or sqrt(a / b).
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
  double eps = 1e-7;  // the least norm by which an update is divided
  int ns_steps = 5;
  Choice<MuonRate> adjust_lr_fn = MuonRate::kOriginal;
};
/// Momentum whose update is replaced by a nearly orthogonal matrix (Jordan et al. 2024):
///
///   m = momentum m + (1 - momentum) g; u = nesterov ? momentum m + (1 - momentum) g : m
///   o = u / |u|; ns_steps times: s = o o^T, o = (a I + b s + c s^2) o   (Newton and Schulz)
///   p = (1 - lr weight_decay) p - lr rate o
///
/// Parameters are matrices; give vectors, embeddings and the last layer to another optimizer, such
/// as AdamW. Throws ArgumentError for parameters of another rank. PyTorch, whose names and defaults
/// these are, computes o in bfloat16; here it has the dtype of the momentum (float32 or float64).
/// State: momentum_buffer.
class Muon final : public CustomOptimizer {
 public:
  explicit Muon(Params params, MuonOptions options = {});
  Muon(Params params, Rate auto lr) : Muon(std::move(params), MuonOptions{.lr = double(lr)}) {}

 private:
  void check_group(const Group& group) const override;
  void update(Parameter& parameter) override;
  Variable orthogonal(const Variable& x) const;

  MuonOptions options_;
};

}  // namespace tapegrad::optim
