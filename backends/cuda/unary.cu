#include "backends/elementwise/unary.h"

#include "backends/cuda/device/map.cuh"
#include "backends/cuda/register.h"

namespace tapegrad::backends::cuda {

void register_unary() { register_unary_kernels<Cuda>(); }

}  // namespace tapegrad::backends::cuda
