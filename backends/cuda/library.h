// Libraries of CUDA that are opened at their first use: linked, they would be loaded by every
// program, for 50 ms and more, also where there is no GPU.
#pragma once

#include <string_view>

namespace tapegrad::backends::cuda {

/// The address of a function of cuBLAS. CudaError when there is no such library or function.
void* find_in_cublas(const char* function);

}  // namespace tapegrad::backends::cuda
