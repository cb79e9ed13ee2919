#include "backends/elementwise/arithmetic.h"

#include "backends/cuda/device/map.cuh"
#include "backends/cuda/register.h"

namespace tapegrad::backends::cuda {

void register_arithmetic() { register_arithmetic_kernels<Cuda>(); }

}  // namespace tapegrad::backends::cuda
