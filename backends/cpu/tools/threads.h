// Thread limits for vendor libraries.
#pragma once

#include <omp.h>

namespace tapegrad::backends::cpu {

/// Call before every use of oneDNN and OpenBLAS. They expect as many threads as
/// omp_get_max_threads() returns: with a smaller OMP_THREAD_LIMIT they wait forever, and with
/// OMP_DYNAMIC oneDNN omits parts of the result. This function makes the calling thread request
/// only threads that it will get.
inline void respect_thread_limit() {
  if (omp_get_max_threads() > omp_get_thread_limit()) [[unlikely]]
    omp_set_num_threads(omp_get_thread_limit());
  if (omp_get_dynamic()) [[unlikely]]
    omp_set_dynamic(false);
}

/// Limits the number of threads to one for a scope, if requested.
class [[nodiscard]] OneThread {
 public:
  explicit OneThread(bool on) : before_(on ? omp_get_max_threads() : 1) {
    if (before_ > 1) omp_set_num_threads(1);
  }
  ~OneThread() {
    if (before_ > 1) omp_set_num_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

}  // namespace tapegrad::backends::cpu
