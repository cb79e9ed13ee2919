#include "backends/cpu/register.h"

namespace tapegrad::backends::cpu {

void register_loss() {}

}  // namespace tapegrad::backends::cpu
