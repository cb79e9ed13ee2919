// The number of threads of kernels on the CPU. Compiled once, for every level.
#include <omp.h>

#include "core/dispatch/internal/backends.h"

namespace tapegrad::backends::cpu {

void set_num_threads(int count) { omp_set_num_threads(count); }
int num_threads() { return omp_get_max_threads(); }

}  // namespace tapegrad::backends::cpu
