#include "backends/elementwise/unary.h"

#include "backends/cpu/register.h"
#include "backends/cpu/tools/functions.h"
#include "backends/cpu/tools/map.h"

namespace tapegrad::backends::cpu {

void register_unary() { register_unary_kernels<Cpu>(); }

}  // namespace tapegrad::backends::cpu
