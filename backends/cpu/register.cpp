#include "backends/cpu/register.h"

namespace tapegrad::backends::cpu {

void register_kernels() {
  register_memory();
  register_create();
  register_binary();
  register_unary();
  register_arithmetic();
  register_special();
  register_sort();
  register_scan();
  register_scatter();
  register_activation();
  register_reduce();
  register_extremes();
  register_softmax();
  register_matmul();
  register_linalg();
  register_fft();
  register_conv();
  register_pool();
  register_sample();
  register_norm();
  register_loss();
  register_ctc_loss();
  register_recurrent();
  register_attention();
  register_index();
  register_random();
  register_noise();
  register_update();
}

}  // namespace tapegrad::backends::cpu
