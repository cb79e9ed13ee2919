#include "backends/cpu/register.h"

namespace tapegrad::backends::cpu {

void register_unary() {}

}  // namespace tapegrad::backends::cpu
