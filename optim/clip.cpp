#include "optim/clip.h"

#include <cmath>

#include "core/autograd/internal/capture.h"
#include "core/autograd/sparse_gradient.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/reduce.h"
#include "ops/unary.h"

namespace tapegrad::optim {

namespace {

/// Returns the norm of all gradients as one vector, in float64 on the device of the first gradient.
/// Empty if there are no gradients.
Variable total_norm(const std::vector<Variable>& params, double norm_type) {
  Variable total;
  for (const Variable& param : params) {
    const Variable grad = gradient_values(param);
    if (!grad.defined() || grad.numel() == 0) continue;
    const DType wide = grad.dtype() == f16 || grad.dtype() == bf16 ? f32 : grad.dtype();
    Variable part = norm(grad.to(wide), norm_type).to(f64);
    if (!std::isinf(norm_type)) part = norm_type == 2 ? square(part) : pow(part, norm_type);
    if (total.defined()) part = part.to(total.device());
    total = !total.defined() ? part : std::isinf(norm_type) ? maximum(total, part) : total + part;
  }
  if (!total.defined() || std::isinf(norm_type)) return total;
  return norm_type == 2 ? sqrt(total) : pow(total, 1.0 / norm_type);
}

}  // namespace

double clip_grad_norm_(const std::vector<Variable>& params, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  if (!(norm_type > 0))
    fail<ArgumentError>("clip_grad_norm_: norm_type is ", norm_type, ", not > 0");
  if (!(max_norm >= 0))
    fail<ArgumentError>("clip_grad_norm_: max_norm is ", max_norm, ", not >= 0");
  const NoGrad no_grad;
  const Variable total = total_norm(params, norm_type);
  if (!total.defined()) return 0;
  // While a step is recorded, the host must not read the norm. The factor, which is at most 1, is
  // then applied in any case.
  const bool waits = error_if_nonfinite || Capture::current() == nullptr;
  const double size = waits ? total.item() : NAN;
  if (error_if_nonfinite && !std::isfinite(size))
    fail<ArgumentError>("clip_grad_norm_: the norm of the gradients is ", size);
  if (waits && max_norm / (size + 1e-6) >= 1) return size;
  const Variable scale = minimum(max_norm / (total + 1e-6), 1.0);
  for (const Variable& param : params)
    if (Variable grad = gradient_values(param); grad.defined()) mul_(grad, scale.to(grad.device()));
  return size;
}

void clip_grad_value_(const std::vector<Variable>& params, double clip_value) {
  if (!(clip_value >= 0))
    fail<ArgumentError>("clip_grad_value_: clip_value is ", clip_value, ", not >= 0");
  const NoGrad no_grad;
  for (const Variable& param : params)
    if (Variable grad = gradient_values(param); grad.defined())
      clamp_(grad, {.min = -clip_value, .max = clip_value});
}

}  // namespace tapegrad::optim
