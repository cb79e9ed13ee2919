// Gradient clipping, to be called between backward() and step().
#pragma once

#include "optim/optimizer.h"

namespace tapegrad::optim {

/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), where norm is the p-norm of all
/// gradients as one vector. Returns the norm before scaling. norm_type may be infinity. Parameters
/// without a gradient are ignored. If error_if_nonfinite is set and the norm is not finite, throws
/// ArgumentError and changes nothing.
double clip_grad_norm_(const std::vector<Variable>& params, double max_norm, double norm_type = 2.0,
                       bool error_if_nonfinite = false);
template <HasParameters Model>
double clip_grad_norm_(const Model& model, double max_norm, double norm_type = 2.0,
                       bool error_if_nonfinite = false) {
  return clip_grad_norm_(model.parameters(), max_norm, norm_type, error_if_nonfinite);
}

/// Clamps each element of every gradient to [-clip_value, clip_value].
void clip_grad_value_(const std::vector<Variable>& params, double clip_value);
template <HasParameters Model>
void clip_grad_value_(const Model& model, double clip_value) {
  clip_grad_value_(model.parameters(), clip_value);
}

}  // namespace tapegrad::optim

// PyTorch's name is nn.utils.clip_grad_norm_.
namespace tapegrad {
using optim::clip_grad_norm_;
using optim::clip_grad_value_;
namespace nn::utils {
using optim::clip_grad_norm_;
using optim::clip_grad_value_;
}  // namespace nn::utils
}  // namespace tapegrad
