// How many threads there may be.
#pragma once

#include <omp.h>

namespace tapegrad::backends::cpu {

/// Before every use of oneDNN and OpenBLAS. They wait for as many threads as omp_get_max_threads()
/// promises, for ever where OMP_THREAD_LIMIT allows fewer; this thread then asks for the limit.
inline void respect_thread_limit() {
  if (omp_get_max_threads() > omp_get_thread_limit()) [[unlikely]]
    omp_set_num_threads(omp_get_thread_limit());
}

}  // namespace tapegrad::backends::cpu
