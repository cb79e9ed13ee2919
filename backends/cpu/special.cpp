#include "backends/elementwise/special.h"

#include "backends/cpu/functions.h"
#include "backends/cpu/map.h"
#include "backends/cpu/register.h"

namespace tapegrad::backends::cpu {

void register_special() { register_special_kernels<Cpu>(); }

}  // namespace tapegrad::backends::cpu
