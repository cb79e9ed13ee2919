#include "backends/elementwise/binary.h"

#include "backends/cpu/functions.h"
#include "backends/cpu/map.h"
#include "backends/cpu/register.h"

namespace tapegrad::backends::cpu {

void register_binary() { register_binary_kernels<Cpu>(); }

}  // namespace tapegrad::backends::cpu
