#include "backends/elementwise/activation.h"

#include "backends/cpu/functions.h"
#include "backends/cpu/map.h"
#include "backends/cpu/register.h"
#include "ops/matmul.h"

namespace tapegrad::backends::cpu {

void register_activation() {
  register_activation_kernels<Cpu>();
  set_kernel(kernels::linear_gelu, DeviceType::kCpu, kFloatTypes,
             [](auto, const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y,
                Tensor& z) { kernels::linear_gelu_by_parts(x, weight, bias, y, z); });
}

}  // namespace tapegrad::backends::cpu
