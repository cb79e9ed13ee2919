// How large a number may be that counts something, among an op's arguments.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>

#include "core/base/error.h"

namespace tapegrad::detail {

/// What is made of two such numbers fits in 63 bits.
inline constexpr int64_t kMostCounted = std::numeric_limits<int32_t>::max();

/// ArgumentError unless from 1 to 2^31 - 1.
inline void require_count(std::string_view op, std::string_view what, int64_t count) {
  if (count < 1 || count > kMostCounted)
    fail<ArgumentError>(op, ": ", what, " must be from 1 to 2^31 - 1: ", count);
}

}  // namespace tapegrad::detail
