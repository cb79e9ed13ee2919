// Checks of options, for ops, constructors of layers, optimizers and schedulers. Each throws
// ArgumentError with the op or class, the option and the value: "layer_norm: eps is nan, not a
// number from 0". The error also names the source line, if one is given.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/where.h"

namespace tapegrad::detail {

/// Throw ArgumentError unless the value is in [0, 1] (share), finite and not negative, greater than
/// 0 (positive), or anything but NaN (number).
void require_share(std::string_view of, std::string_view option, double value, Where where = {});
void require_not_negative(std::string_view of, std::string_view option, double value,
                          Where where = {});
void require_positive(std::string_view of, std::string_view option, double value, Where where = {});
void require_number(std::string_view of, std::string_view option, double value, Where where = {});

/// Throws ArgumentError unless the whole number is at least `low`.
void require_from(std::string_view of, std::string_view option, int64_t value, int64_t low,
                  Where where = {});

}  // namespace tapegrad::detail
