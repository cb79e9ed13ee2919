// Checks of real options, for ops and for constructors of layers. Each throws ArgumentError with
// the op or layer, the option and the value: "layer_norm: eps is nan, not a number from 0". The
// error also names the source line, if one is given.
#pragma once

#include <string_view>

#include "core/base/where.h"

namespace tapegrad::detail {

/// Throw ArgumentError unless the value is in [0, 1] (share), finite and not negative (size),
/// greater than 0 (positive), or anything but NaN (number).
void require_share(std::string_view of, std::string_view option, double value, Where where = {});
void require_size(std::string_view of, std::string_view option, double value, Where where = {});
void require_positive(std::string_view of, std::string_view option, double value, Where where = {});
void require_number(std::string_view of, std::string_view option, double value, Where where = {});

}  // namespace tapegrad::detail
