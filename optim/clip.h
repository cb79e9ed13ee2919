// Gradient clipping, for use between backward() and step().
#pragma once

#include <iosfwd>

#include "core/base/by_name.h"
#include "optim/optimizer.h"

namespace tapegrad::optim {

/// A norm of gradients: converts to a number as in libtorch, and to a tensor of one element as in
/// PyTorch.
class GradientNorm {
 public:
  GradientNorm(double value = 0);
  /// Makes a norm that the host has not read, because a step is being captured.
  explicit GradientNorm(const Variable& unread);

  operator double() const;
  operator Variable() const;  // of the default dtype
  double item() const;
  template <typename T>
  T item() const {
    return T(item());
  }

 private:
  double value_ = 0;
  Variable unread_;
};
std::ostream& operator<<(std::ostream& out, const GradientNorm& norm);

namespace detail {
/// Implements clip_grad_norm_(). Unless `reads_norm`, does not wait for a GPU, and the result on a
/// GPU is NaN.
GradientNorm clip_grad_norm(const std::vector<Variable>& params, double max_norm, double norm_type,
                            bool error_if_nonfinite, bool reads_norm);
}  // namespace detail

/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), where norm is the p-norm of all
/// gradients as one vector. Returns the norm before scaling. norm_type may be infinity. Parameters
/// without a gradient are ignored. If error_if_nonfinite is set and the norm is not finite, throws
/// ArgumentError and changes nothing.
GradientNorm clip_grad_norm_(const std::vector<Variable>& params, double max_norm,
                             double norm_type = 2.0, bool error_if_nonfinite = false,
                             Where where = Where::current());
template <HasParameters Model>
GradientNorm clip_grad_norm_(const Model& model, double max_norm, double norm_type = 2.0,
                             bool error_if_nonfinite = false, Where where = Where::current()) {
  return clip_grad_norm_(model.parameters(), max_norm, norm_type, error_if_nonfinite, where);
}
/// Overload for one parameter.
template <std::same_as<Variable> V>
GradientNorm clip_grad_norm_(const V& param, double max_norm, double norm_type = 2.0,
                             bool error_if_nonfinite = false, Where where = Where::current()) {
  return clip_grad_norm_(std::vector<Variable>{param}, max_norm, norm_type, error_if_nonfinite,
                         where);
}

struct ClipGradNormOptions {
  ByName by_name = {};
  double norm_type = 2.0;
  bool error_if_nonfinite = false;
};
/// Overloads with options: clip_grad_norm_(model, 1.0, {.error_if_nonfinite = true}).
GradientNorm clip_grad_norm_(const std::vector<Variable>& params, double max_norm,
                             ClipGradNormOptions options);
template <std::same_as<Variable> V>
GradientNorm clip_grad_norm_(const V& param, double max_norm, ClipGradNormOptions options) {
  return clip_grad_norm_(std::vector<Variable>{param}, max_norm, options);
}
template <HasParameters Model>
GradientNorm clip_grad_norm_(const Model& model, double max_norm, ClipGradNormOptions options) {
  return clip_grad_norm_(model.parameters(), max_norm, options);
}

struct ClipGradNormSettings {
  ByName by_name = {};
  double max_norm;
  double norm_type = 2.0;
  bool error_if_nonfinite = false;
};
/// Overloads with max_norm by name: clip_grad_norm_(model, {.max_norm = 1.0}).
GradientNorm clip_grad_norm_(const std::vector<Variable>& params, ClipGradNormSettings options);
template <HasParameters Model>
GradientNorm clip_grad_norm_(const Model& model, ClipGradNormSettings options) {
  return clip_grad_norm_(model.parameters(), options);
}

/// Clamps each element of every gradient to [-clip_value, clip_value].
void clip_grad_value_(const std::vector<Variable>& params, double clip_value,
                      Where where = Where::current());
template <HasParameters Model>
void clip_grad_value_(const Model& model, double clip_value, Where where = Where::current()) {
  clip_grad_value_(model.parameters(), clip_value, where);
}

/// Returns the p-norm of all tensors as one vector: in float64 if one of them is float64, otherwise
/// in the default dtype. Throws ArgumentError unless norm_type > 0, and if error_if_nonfinite is
/// set and the norm is not finite.
Variable get_total_norm(const std::vector<Variable>& tensors, double norm_type = 2.0,
                        bool error_if_nonfinite = false, Where where = Where::current());

}  // namespace tapegrad::optim

// PyTorch's name is nn.utils.clip_grad_norm_.
namespace tapegrad {
using optim::clip_grad_norm_;
using optim::clip_grad_value_;
namespace nn {
using optim::clip_grad_norm_;
using optim::clip_grad_value_;
namespace utils {
using optim::clip_grad_norm_;
using optim::clip_grad_value_;
using optim::get_total_norm;
}  // namespace utils
}  // namespace nn
}  // namespace tapegrad
