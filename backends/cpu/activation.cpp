#include "backends/cpu/register.h"

namespace tapegrad::backends::cpu {

void register_activation() {}

}  // namespace tapegrad::backends::cpu
