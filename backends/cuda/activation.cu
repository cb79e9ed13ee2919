#include "backends/elementwise/activation.h"

#include "backends/cuda/device/map.cuh"
#include "backends/cuda/register.h"

namespace tapegrad::backends::cuda {

void register_activation() { register_activation_kernels<Cuda>(); }

}  // namespace tapegrad::backends::cuda
