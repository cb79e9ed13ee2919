#include "backends/cpu/register.h"

namespace tapegrad::backends::cpu {

void register_reduce() {}

}  // namespace tapegrad::backends::cpu
