// Offsets of values in one block of memory, computed from the lifetimes. Values whose lifetimes
// overlap have different places.
#pragma once

#include <cstddef>
#include <vector>

namespace tapegrad {

/// A value that is needed in the steps [first, last].
struct PlannedValue {
  size_t bytes, first, last;
};

struct MemoryPlan {
  std::vector<size_t> offsets;  // of each value, multiples of 64, or 512 from 8192 bytes on
  size_t bytes = 0;             // of the block
  size_t least = 0;             // largest number of bytes needed at the same time
};

/// Plans the places. A large value gets the lowest place that is free during its lifetime, the
/// largest values first. Small values, of which a step may have very many, share slots of their
/// size.
MemoryPlan plan_memory(const std::vector<PlannedValue>& values);

}  // namespace tapegrad
