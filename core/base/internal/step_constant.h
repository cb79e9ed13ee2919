// Tensors of host values that depend only on shapes and options, such as tables of indices.
#pragma once

#include "core/base/context.h"
#include "core/base/internal/call_recorder.h"
#include "core/base/internal/step_observer.h"
#include "core/base/tensor.h"

namespace tapegrad::detail {

/// Returns make(), a tensor that is filled on the host. A captured step keeps the tensor for all
/// its runs.
template <typename Make>
Tensor step_constant(const Make& make) {
  const UseRecorder on_the_host(nullptr);
  Tensor x = [&] {
    const Set<&Context::is_making_constant> making(true);
    return make();
  }();
  if (StepObserver* step = StepObserver::current()) step->on_constant(x);
  return x;
}

}  // namespace tapegrad::detail
