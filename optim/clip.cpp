#include "optim/clip.h"

#include <cmath>

#include "core/tape.h"
#include "ops/binary.h"
#include "ops/reduce.h"
#include "ops/unary.h"

namespace tapegrad::optim {

double clip_grad_norm_(const std::vector<Variable>& params, double max_norm, double norm_type,
                       bool error_if_nonfinite) {
  if (!(norm_type > 0))
    fail<ArgumentError>("clip_grad_norm_: norm_type is ", norm_type, ", not > 0");
  const NoGrad no_grad;
  double total = 0;
  for (const Variable& param : params) {
    const Variable grad = param.grad();
    if (!grad || grad.numel() == 0) continue;
    const DType wide = grad.dtype() == f16 || grad.dtype() == bf16 ? f32 : grad.dtype();
    const double size = norm(grad.to(wide), norm_type).item();
    if (!std::isinf(norm_type))
      total += std::pow(size, norm_type);
    else if (!(size <= total))  // also NaN
      total = std::isnan(total) ? total : size;
  }
  if (!std::isinf(norm_type)) total = std::pow(total, 1.0 / norm_type);
  if (error_if_nonfinite && !std::isfinite(total))
    fail<ArgumentError>("clip_grad_norm_: the norm of the gradients is ", total);
  const double scale = max_norm / (total + 1e-6);
  if (scale >= 1) return total;
  for (const Variable& param : params)
    if (Variable grad = param.grad()) mul_(grad, scale);
  return total;
}

void clip_grad_value_(const std::vector<Variable>& params, double clip_value) {
  if (!(clip_value >= 0))
    fail<ArgumentError>("clip_grad_value_: clip_value is ", clip_value, ", not >= 0");
  const NoGrad no_grad;
  for (const Variable& param : params)
    if (Variable grad = param.grad()) clamp_(grad, {.min = -clip_value, .max = clip_value});
}

}  // namespace tapegrad::optim
