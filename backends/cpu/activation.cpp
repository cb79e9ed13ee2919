#include "backends/elementwise/activation.h"

#include "backends/cpu/functions.h"
#include "backends/cpu/map.h"
#include "backends/cpu/register.h"

namespace tapegrad::backends::cpu {

void register_activation() { register_activation_kernels<Cpu>(); }

}  // namespace tapegrad::backends::cpu
