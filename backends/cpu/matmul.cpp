#include "backends/cpu/register.h"

namespace tapegrad::backends::cpu {

void register_matmul() {}

}  // namespace tapegrad::backends::cpu
