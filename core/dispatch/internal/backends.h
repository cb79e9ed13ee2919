// The backends as core knows them: by name, so that these references pull them out of a static
// library. A build without a CUDA toolkit has backends/without_cuda.cpp instead of backends/cuda/.
#pragma once

#include <string>

#include "core/base/allocator.h"

namespace tapegrad::backends::cpu {

void register_kernels();
std::string describe();  // its lines of runtime_info()

}  // namespace tapegrad::backends::cpu

namespace tapegrad::backends::cuda {

void register_kernels();
std::string describe();
/// Null when no device can be used.
Allocator* allocator();
/// Why there is no device cuda:index; empty when there is.
std::string why_unavailable(int index);

}  // namespace tapegrad::backends::cuda
