// Gradients of many parameters, for kernels that take a list of tensors.
#pragma once

#include <vector>

#include "core/autograd/sparse_gradient.h"
#include "core/dispatch/kernels.h"
#include "ops/update.h"

namespace tapegrad::optim::detail {

/// Consecutive gradients of one device and dtype.
struct GradientRun {
  std::vector<Variable> grads;
  Gradients dense;  // the gradients, or copies of those that are not contiguous

  /// Copies gradients back to non-contiguous tensors. Call after a kernel wrote to `dense`.
  void write_back() const {
    for (size_t i = 0; i < grads.size(); ++i) {
      Tensor& grad = grads[i].writable();
      if (!dense.list[i].shares_storage(grad)) kernels::copy(dense.list[i], grad);
      grad.storage().bump_version();
    }
  }
};

/// Returns the gradients of all parameters that have one, in order.
inline std::vector<GradientRun> gradient_runs(const std::vector<Variable>& params) {
  std::vector<GradientRun> runs;
  for (const Variable& param : params) {
    const Variable grad = gradient_values(param);
    if (!grad.defined()) continue;
    if (runs.empty() || runs.back().dense.device() != grad.device() ||
        runs.back().dense.dtype() != grad.dtype())
      runs.emplace_back();
    runs.back().grads.push_back(grad);
    runs.back().dense.list.push_back(grad.value().contiguous());
  }
  return runs;
}

}  // namespace tapegrad::optim::detail
