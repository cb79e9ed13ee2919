// Check of the index of an example.
#pragma once

#include <cstdint>

#include "core/base/error.h"

namespace tapegrad {

/// Throws IndexError unless a data set of this size has the example.
inline void check_index(int64_t index, int64_t size) {
  if (index < 0 || index >= size)
    fail<IndexError>("dataset: index ", index, " is outside [0, ", size, ")");
}

}  // namespace tapegrad
