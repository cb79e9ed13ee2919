// How many threads there may be.
#pragma once

#include <omp.h>

namespace tapegrad::backends::cpu {

/// Before every use of oneDNN and OpenBLAS. They count on as many threads as omp_get_max_threads()
/// promises: where OMP_THREAD_LIMIT allows fewer they wait for ever, where OMP_DYNAMIC gives fewer
/// oneDNN leaves out parts of the result. So this thread asks for what it will get.
inline void respect_thread_limit() {
  if (omp_get_max_threads() > omp_get_thread_limit()) [[unlikely]]
    omp_set_num_threads(omp_get_thread_limit());
  if (omp_get_dynamic()) [[unlikely]]
    omp_set_dynamic(false);
}

}  // namespace tapegrad::backends::cpu
