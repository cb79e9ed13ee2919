// Switch for fast paths: kernels for common sizes, next to the general kernels.
#pragma once

#include <cstdlib>
#include <string_view>

namespace tapegrad::backends::cpu {

/// Returns false if the environment variable TAPEGRAD_FAST_PATHS is 0: then only general kernels
/// are used. The variable is read once.
inline bool fast_paths() {
  static const bool on = [] {
    const char* text = std::getenv("TAPEGRAD_FAST_PATHS");
    return text == nullptr || std::string_view(text) != "0";
  }();
  return on;
}

}  // namespace tapegrad::backends::cpu
