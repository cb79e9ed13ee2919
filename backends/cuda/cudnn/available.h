// Whether cuDNN, which is opened at its first use, computes anything.
#pragma once

#include <string>

#include "core/base/device.h"

namespace tapegrad::backends::cuda {

/// Why cuDNN computes nothing on the device; empty where it does.
std::string why_no_cudnn(tapegrad::Device device);
/// "cuDNN 9.19", or "no cuDNN (libcudnn.so.9 could not be opened)".
std::string describe_cudnn();

/// For tests that compare. Returns what was set before: at first true, unless the environment says
/// TAPEGRAD_FAST_PATHS=0.
bool use_cudnn(bool on);

}  // namespace tapegrad::backends::cuda
