#include "backends/elementwise/activation.h"

#include "backends/cpu/register.h"
#include "backends/cpu/tools/functions.h"
#include "backends/cpu/tools/map.h"
#include "ops/linear.h"

namespace tapegrad::backends::cpu {

void register_activation() {
  register_activation_kernels<Cpu>();
  set_kernel(kernels::linear_gelu, DeviceType::kCpu, kFloatTypes,
             [](auto, const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& y,
                Tensor& z) { kernels::linear_gelu_by_parts(x, weight, bias, y, z); });
  set_kernel(kernels::gelu_linear_backward, DeviceType::kCpu, kFloatTypes,
             [](auto, const Tensor& dy, const Tensor& z, const Tensor& x, const Tensor& weight,
                Tensor& dx, Tensor& dw, Tensor& db) {
               kernels::gelu_linear_backward_by_parts(dy, z, x, weight, dx, dw, db);
             });
}

}  // namespace tapegrad::backends::cpu
