#include "optim/clip.h"

#include <algorithm>
#include <cmath>
#include <ostream>

#include "core/autograd/internal/capture.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/internal/kernels/many_gradients.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/unary.h"
#include "optim/internal/gradient_runs.h"

namespace tapegrad::optim {

namespace {

using Runs = std::vector<detail::GradientRun>;

/// Returns whether all gradients are on one device, which has kernels for many gradients.
bool are_together(const Runs& runs, double norm_type) {
  Tensor total;
  return std::all_of(runs.begin(), runs.end(), [&](const detail::GradientRun& run) {
    return run.dense.device() == runs.front().dense.device() &&
           kernels::add_powers.accepts(run.dense, norm_type, total);
  });
}

/// Adds the sum of the elements' powers to the total in float64, which is empty at first. For an
/// infinite norm the total is the largest magnitude.
void add_powers_of(const Variable& x, double norm_type, Variable& total) {
  if (x.numel() == 0) return;
  const DType wide = x.dtype() == f16 || x.dtype() == bf16 ? f32 : x.dtype();
  Variable part = norm(x.to(wide), norm_type).to(f64);
  if (!std::isinf(norm_type)) part = norm_type == 2 ? square(part) : pow(part, norm_type);
  if (total.defined()) part = part.to(total.device());
  total = !total.defined() ? part : std::isinf(norm_type) ? maximum(total, part) : total + part;
}

/// Returns the norm of which the sum of powers is given; the total itself for an infinite norm.
Variable root_of(const Variable& total, double norm_type) {
  if (!total.defined() || std::isinf(norm_type)) return total;
  return norm_type == 2 ? sqrt(total) : pow(total, 1.0 / norm_type);
}

/// Returns the norm of all gradients as one vector, in float64 on the device of the first gradient.
/// Empty if there are no gradients.
Variable total_norm(const Runs& runs, double norm_type, bool together) {
  Variable total;
  if (together && !runs.empty()) {
    Tensor sum = Tensor::full({}, 0, f64, runs.front().dense.device());
    for (const detail::GradientRun& run : runs) kernels::add_powers(run.dense, norm_type, sum);
    total = Variable(sum);
  } else {
    for (const detail::GradientRun& run : runs)
      for (const Variable& grad : run.grads) add_powers_of(grad, norm_type, total);
  }
  return root_of(total, norm_type);
}

}  // namespace

GradientNorm::operator Variable() const {
  if (unread_.defined()) return unread_.to(default_dtype());
  return Variable(Tensor::full({}, value_, default_dtype()));
}
std::ostream& operator<<(std::ostream& out, const GradientNorm& norm) { return out << norm.item(); }

GradientNorm clip_grad_norm_(const std::vector<Variable>& params, double max_norm, double norm_type,
                             bool error_if_nonfinite, Where where) {
  const ErrorLine line(where);
  return detail::clip_grad_norm(params, max_norm, norm_type, error_if_nonfinite,
                                /*reads_norm=*/true);
}
GradientNorm detail::clip_grad_norm(const std::vector<Variable>& params, double max_norm,
                                    double norm_type, bool error_if_nonfinite, bool reads_norm) {
  if (!(norm_type > 0))
    fail<ArgumentError>("clip_grad_norm_: norm_type is ", norm_type, ", not > 0");
  if (!(max_norm >= 0))
    fail<ArgumentError>("clip_grad_norm_: max_norm is ", max_norm, ", not >= 0");
  const NoGrad no_grad;
  const Runs runs = detail::gradient_runs(params);
  const bool together = are_together(runs, norm_type);
  const Variable total = total_norm(runs, norm_type, together);
  if (!total.defined()) return {};
  // While a step is recorded, the host must not read the norm. The factor, which is at most 1, is
  // then applied in any case.
  const bool waits = error_if_nonfinite ||
                     (Capture::current() == nullptr && (reads_norm || total.device() == cpu));
  const double size = waits ? total.item() : NAN;
  if (error_if_nonfinite && !std::isfinite(size))
    fail<ArgumentError>("clip_grad_norm_: the norm of the gradients is ", size);
  if (waits && max_norm / (size + 1e-6) >= 1) return {size};
  const Variable scale = minimum(max_norm / (total + 1e-6), 1.0);
  for (const detail::GradientRun& run : runs) {
    if (together) {
      kernels::scale_gradients(run.dense, scale.value());
      run.write_back();
    } else {
      for (Variable grad : run.grads) {
        const Variable factor = scale.to(grad.device());
        if (grad.rank() == 0)  // the product of two numbers has the dtype of the factor
          copy_(grad, grad * factor);
        else
          mul_(grad, factor);
      }
    }
  }
  return waits ? GradientNorm(size) : GradientNorm(total);
}

void clip_grad_value_(const std::vector<Variable>& params, double clip_value, Where where) {
  const ErrorLine line(where);
  if (!(clip_value >= 0))
    fail<ArgumentError>("clip_grad_value_: clip_value is ", clip_value, ", not >= 0");
  const NoGrad no_grad;
  for (const detail::GradientRun& run : detail::gradient_runs(params)) {
    if (kernels::clamp_gradients.accepts(run.dense, clip_value)) {
      kernels::clamp_gradients(run.dense, clip_value);
      run.write_back();
    } else {
      for (Variable grad : run.grads) clamp_(grad, {.min = -clip_value, .max = clip_value});
    }
  }
}

GradientNorm::GradientNorm(double value) : value_(value) {}
GradientNorm::GradientNorm(const Variable& unread) : unread_(unread) {}
GradientNorm::operator double() const { return item(); }
double GradientNorm::item() const { return unread_.defined() ? unread_.item() : value_; }
GradientNorm clip_grad_norm_(const std::vector<Variable>& params, double max_norm,
                             ClipGradNormOptions options) {
  return clip_grad_norm_(params, max_norm, options.norm_type, options.error_if_nonfinite,
                         options.by_name.where);
}
GradientNorm clip_grad_norm_(const std::vector<Variable>& params, ClipGradNormSettings options) {
  return clip_grad_norm_(params, options.max_norm, options.norm_type, options.error_if_nonfinite,
                         options.by_name.where);
}
Variable get_total_norm(const std::vector<Variable>& tensors, double norm_type,
                        bool error_if_nonfinite, Where where) {
  const ErrorLine line(where);
  if (!(norm_type > 0))
    fail<ArgumentError>("get_total_norm: norm_type is ", norm_type, ", not > 0");
  Variable powers;
  DType dtype = default_dtype();
  for (const Variable& x : tensors) {
    add_powers_of(x, norm_type, powers);
    if (x.dtype() == f64) dtype = f64;
  }
  if (!powers.defined()) return zeros({}, dtype);
  const Variable total = root_of(powers, norm_type).to(dtype);
  if (error_if_nonfinite && !std::isfinite(total.item()))
    fail<ArgumentError>("get_total_norm: the norm is ", total.item());
  return total;
}

}  // namespace tapegrad::optim
