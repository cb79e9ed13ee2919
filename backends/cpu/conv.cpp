#include "backends/cpu/register.h"

namespace tapegrad::backends::cpu {

void register_conv() {}

}  // namespace tapegrad::backends::cpu
