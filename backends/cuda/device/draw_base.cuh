// The random state of a draw. In a graph, each run reads the seed and the offset from memory.
#pragma once

#include "backends/cuda/device/launch.cuh"
#include "core/base/generator.h"

namespace tapegrad::backends::cuda {

struct DrawState {
  RandomState state;
  const RandomState* base = nullptr;  // null: `state` is absolute

  DrawState() = default;
  explicit DrawState(RandomState state) : state(state), base(live_base(state)) {}

  __device__ RandomState now() const {
    return base == nullptr ? state : RandomState{base->seed, base->offset + state.offset};
  }
};

}  // namespace tapegrad::backends::cuda
