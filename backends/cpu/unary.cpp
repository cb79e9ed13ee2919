#include "backends/elementwise/unary.h"

#include "backends/cpu/functions.h"
#include "backends/cpu/map.h"
#include "backends/cpu/register.h"

namespace tapegrad::backends::cpu {

void register_unary() { register_unary_kernels<Cpu>(); }

}  // namespace tapegrad::backends::cpu
