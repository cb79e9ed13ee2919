#include "backends/elementwise/binary.h"

#include "backends/cuda/device/map.cuh"
#include "backends/cuda/register.h"

namespace tapegrad::backends::cuda {

void register_binary() { register_binary_kernels<Cuda>(); }

}  // namespace tapegrad::backends::cuda
