// Tensors of host values that depend only on shapes and options, such as tables of indices.
#pragma once

#include <utility>

#include "core/base/internal/call_recorder.h"
#include "core/base/internal/step_observer.h"
#include "core/base/tensor.h"

namespace tapegrad::detail {

/// Whether this thread runs the function passed to step_constant().
inline constinit thread_local bool is_making_constant = false;

/// Returns make(), a tensor that is filled on the host. A captured step keeps the tensor for all
/// its runs.
template <typename Make>
Tensor step_constant(const Make& make) {
  const UseRecorder on_the_host(nullptr);
  struct Making {
    const bool before = std::exchange(is_making_constant, true);
    ~Making() { is_making_constant = before; }
  };
  Tensor x = [&] {
    const Making making;
    return make();
  }();
  if (StepObserver* step = StepObserver::current()) step->on_constant(x);
  return x;
}

}  // namespace tapegrad::detail
