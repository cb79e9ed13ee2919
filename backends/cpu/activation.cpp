#include "backends/elementwise/activation.h"

#include "backends/cpu/register.h"
#include "backends/cpu/tools/functions.h"
#include "backends/cpu/tools/map.h"

namespace tapegrad::backends::cpu {

void register_activation() { register_activation_kernels<Cpu>(); }

}  // namespace tapegrad::backends::cpu
