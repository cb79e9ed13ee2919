#include "backends/cpu/register.h"

namespace tapegrad::backends::cpu {

void register_kernels() {
  register_memory();
}

}  // namespace tapegrad::backends::cpu
