#include "nn/option_checks.h"

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"

namespace tapegrad::nn {

void require_option(std::string_view layer, std::string_view option, int64_t value, Where where) {
  const ErrorLine line(where);
  if (value == 0) fail<ArgumentError>(layer, ": the option ", option, " is missing, or 0");
  if (value < 0) fail<ArgumentError>(layer, ": ", option, " is negative: ", value);
}

void require_windows(std::string_view layer, const WindowOptions& windows, Where where) {
  const ErrorLine line(where);
  for (const int64_t size : windows.kernel_size) require_option(layer, ".kernel_size", size);
  for (const int64_t step : windows.stride) require_from(layer, ".stride", step, 1);
  for (const int64_t amount : windows.padding) require_from(layer, ".padding", amount, 0);
  for (const int64_t gap : windows.dilation) require_from(layer, ".dilation", gap, 1);
}

void require_pool_windows(std::string_view layer, const WindowOptions& windows, Where where) {
  const ErrorLine line(where);
  require_windows(layer, windows);
  for (size_t i = 0; i < windows.padding.size(); ++i)
    if (windows.padding[i] > windows.kernel_size[i] / 2)
      fail<ArgumentError>(layer, ": .padding is ", windows.padding[i],
                          ", more than half of .kernel_size, ", windows.kernel_size[i]);
}

}  // namespace tapegrad::nn
