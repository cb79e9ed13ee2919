#include "backends/elementwise/binary.h"

#include "backends/cpu/register.h"
#include "backends/cpu/tools/functions_special.h"
#include "backends/cpu/tools/map.h"

namespace tapegrad::backends::cpu {

void register_binary() { register_binary_kernels<Cpu>(); }

}  // namespace tapegrad::backends::cpu
