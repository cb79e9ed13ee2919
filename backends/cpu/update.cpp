#include "backends/cpu/register.h"

namespace tapegrad::backends::cpu {

void register_update() {}

}  // namespace tapegrad::backends::cpu
