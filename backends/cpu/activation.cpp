#include "backends/elementwise/activation.h"

#include "backends/cpu/register.h"
#include "backends/cpu/tools/functions.h"
#include "backends/cpu/tools/map.h"
#include "ops/linear.h"

namespace tapegrad::backends::cpu {

void register_activation() {
  register_activation_kernels<Cpu>();
  set<kernels::linear_gelu>(kFloatTypes,
                            [](auto, auto&... a) { kernels::linear_gelu_by_parts(a...); });
  set<kernels::gelu_linear_backward>(
      kFloatTypes, [](auto, auto&... a) { kernels::gelu_linear_backward_by_parts(a...); });
}

}  // namespace tapegrad::backends::cpu
