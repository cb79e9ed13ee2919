#include "backends/cpu/register.h"

namespace tapegrad::backends::cpu {

void register_pool() {}

}  // namespace tapegrad::backends::cpu
