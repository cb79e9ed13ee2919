// Checks of options, for constructors of layers. Each throws ArgumentError with the layer, the
// option and the value: "MaxPool2d: .stride is 0, not at least 1". The error also names the source
// line, if one is given.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/where.h"
#include "ops/option_checks.h"

namespace tapegrad::nn {

/// Throws ArgumentError if the value is missing (0) or negative.
void require_option(std::string_view layer, std::string_view option, int64_t value,
                    Where where = {});
using tapegrad::detail::require_from;
using tapegrad::detail::require_not_negative;
using tapegrad::detail::require_number;
using tapegrad::detail::require_positive;
using tapegrad::detail::require_share;

/// Windows of a convolution or pooling, with a number for each dimension.
struct WindowOptions {
  std::vector<int64_t> kernel_size, stride, padding, dilation;
};
/// Throws ArgumentError unless kernel_size, stride and dilation are positive and padding is not
/// negative.
void require_windows(std::string_view layer, const WindowOptions& windows, Where where = {});
/// Throws ArgumentError as require_windows() does, and if padding exceeds half of kernel_size.
void require_pool_windows(std::string_view layer, const WindowOptions& windows, Where where = {});

}  // namespace tapegrad::nn
