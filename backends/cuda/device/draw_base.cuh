// Where the numbers of a draw begin, also in a graph, which finds that in memory for each run.
#pragma once

#include "backends/cuda/device/launch.cuh"
#include "core/base/generator.h"

namespace tapegrad::backends::cuda {

struct DrawState {
  RandomState state;
  const RandomState* base = nullptr;  // null: the state is what it says

  DrawState() = default;
  explicit DrawState(RandomState state) : state(state), base(live_base(state)) {}

  __device__ RandomState now() const {
    return base == nullptr ? state : RandomState{base->seed, base->offset + state.offset};
  }
};

}  // namespace tapegrad::backends::cuda
