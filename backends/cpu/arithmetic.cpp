#include "backends/elementwise/arithmetic.h"

#include "backends/cpu/register.h"
#include "backends/cpu/tools/functions_special.h"
#include "backends/cpu/tools/map.h"

namespace tapegrad::backends::cpu {

void register_arithmetic() { register_arithmetic_kernels<Cpu>(); }

}  // namespace tapegrad::backends::cpu
