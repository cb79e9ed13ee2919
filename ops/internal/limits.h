// Limits of numbers, and of arguments that are counts.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "core/base/error.h"

namespace tapegrad::detail {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Largest count. The product of two such counts fits into 63 bits.
inline constexpr int64_t kMostCounted = std::numeric_limits<int32_t>::max();

/// Throws ArgumentError unless count is in [1, 2^31 - 1].
inline void require_count(std::string_view op, std::string_view what, int64_t count) {
  if (count < 1 || count > kMostCounted)
    fail<ArgumentError>(op, ": ", what, " must be from 1 to 2^31 - 1: ", count);
}

}  // namespace tapegrad::detail
