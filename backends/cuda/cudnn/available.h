// Availability of cuDNN, which is loaded at its first use.
#pragma once

#include <string>

#include "core/base/device.h"

namespace tapegrad::backends::cuda {

/// Returns the reason why cuDNN is unavailable on the device; empty if it is available.
std::string why_no_cudnn(tapegrad::Device device);
/// "cuDNN 9.19", or "no cuDNN (libcudnn.so.9 could not be opened)".
std::string describe_cudnn();

/// Turns cuDNN on or off, for tests that compare. Returns the previous setting, which is initially
/// true unless TAPEGRAD_FAST_PATHS is 0.
bool use_cudnn(bool on);

}  // namespace tapegrad::backends::cuda
