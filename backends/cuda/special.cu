#include "backends/elementwise/special.h"

#include "backends/cuda/device/map.cuh"
#include "backends/cuda/register.h"

namespace tapegrad::backends::cuda {

void register_special() { register_special_kernels<Cuda>(); }

}  // namespace tapegrad::backends::cuda
