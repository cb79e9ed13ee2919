// Tensors of host values that depend on shapes alone, such as tables of indices.
#pragma once

#include "core/base/internal/call_recorder.h"
#include "core/base/internal/step_observer.h"
#include "core/base/tensor.h"

namespace tapegrad::detail {

/// Returns make(), a tensor that is filled on the host. A captured step keeps it for all its runs.
template <typename Make>
Tensor step_constant(const Make& make) {
  const UseRecorder on_the_host(nullptr);
  Tensor x = make();
  if (StepObserver* step = StepObserver::current()) step->on_constant(x);
  return x;
}

}  // namespace tapegrad::detail
