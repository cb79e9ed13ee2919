#include "backends/cpu/register.h"

namespace tapegrad::backends::cpu {

void register_binary() {}

}  // namespace tapegrad::backends::cpu
