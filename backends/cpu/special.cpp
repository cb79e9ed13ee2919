#include "backends/elementwise/special.h"

#include "backends/cpu/register.h"
#include "backends/cpu/tools/functions_special.h"
#include "backends/cpu/tools/map.h"

namespace tapegrad::backends::cpu {

void register_special() { register_special_kernels<Cpu>(); }

}  // namespace tapegrad::backends::cpu
