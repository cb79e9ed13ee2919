// Checks of options. optim/optimizer.h declares check_range().
#pragma once

#include <limits>
#include <string_view>

#include "core/base/error.h"
#include "ops/option_checks.h"

namespace tapegrad::optim {

using tapegrad::detail::require_from;
using tapegrad::detail::require_share;

/// Upper limit of an option that has none, for check_range().
inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

/// Throws ArgumentError unless value > 0. A value of 0 means that the option was omitted.
inline void require_positive(std::string_view kind, std::string_view option, double value) {
  if (value == 0) fail<ArgumentError>(kind, ": the option ", option, " is missing");
  if (!(value > 0)) fail<ArgumentError>(kind, ": ", option, " is ", value, ", not > 0");
}

}  // namespace tapegrad::optim
