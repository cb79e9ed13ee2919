// The entry points of the backends. core declares the entry points by name, so that the linker
// takes the backends from a static library. A build without CUDA defines them in
// backends/without_cuda.cpp.
#pragma once

#include <string>

#include "core/base/allocator.h"

namespace tapegrad::backends {

/// Registers kernels for integer dtypes by the device's kernels for wider dtypes.
void register_narrow_integers(DeviceType device);

}  // namespace tapegrad::backends

namespace tapegrad::backends::cpu {

void register_kernels();
std::string describe();  // the backend's lines of runtime_info()
/// Sets the number of threads of kernels that this thread calls.
void set_num_threads(int count);
int num_threads();

}  // namespace tapegrad::backends::cpu

namespace tapegrad::backends::cuda {

void register_kernels();
std::string describe();
/// Returns null if no device can be used.
Allocator* allocator();
/// Returns the reason why device cuda:index is unavailable; empty if it is available.
std::string why_unavailable(int index);

}  // namespace tapegrad::backends::cuda
