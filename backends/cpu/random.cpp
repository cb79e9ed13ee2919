#include "backends/cpu/register.h"

namespace tapegrad::backends::cpu {

void register_random() {}

}  // namespace tapegrad::backends::cpu
