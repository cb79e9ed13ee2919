// Kernels for sizes that are often met stand beside the one that takes any size.
#pragma once

#include <cstdlib>
#include <string_view>

namespace tapegrad::backends::cpu {

/// False if the environment says TAPEGRAD_FAST_PATHS=0: only the general kernels are used then.
/// Read once.
inline bool fast_paths() {
  static const bool on = [] {
    const char* text = std::getenv("TAPEGRAD_FAST_PATHS");
    return text == nullptr || std::string_view(text) != "0";
  }();
  return on;
}

}  // namespace tapegrad::backends::cpu
