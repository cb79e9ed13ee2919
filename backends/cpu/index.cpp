#include "backends/cpu/register.h"

namespace tapegrad::backends::cpu {

void register_index() {}

}  // namespace tapegrad::backends::cpu
