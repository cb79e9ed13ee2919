#include "backends/elementwise/arithmetic.h"

#include "backends/cpu/functions.h"
#include "backends/cpu/map.h"
#include "backends/cpu/register.h"

namespace tapegrad::backends::cpu {

void register_arithmetic() { register_arithmetic_kernels<Cpu>(); }

}  // namespace tapegrad::backends::cpu
