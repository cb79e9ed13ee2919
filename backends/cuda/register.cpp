#include "backends/cuda/register.h"

#include "core/dispatch/internal/backends.h"

namespace tapegrad::backends::cuda {

void register_kernels() {
  register_copy();
  register_memory();
  register_create();
  register_unary();
  register_binary();
  register_activation();
  register_arithmetic();
  register_special();
  register_reduce();
  register_softmax();
  register_matmul();
  register_linear();
  register_attention();
  register_attention_backward();
  register_norm();
  register_layer_norm();
  register_recurrent();
  register_index();
  register_scatter();
  register_update();
  register_loss();
  register_conv();
  register_pool();
  register_random();
  register_random_distributions();
  register_sample();
  register_scan();
  register_sort();
  register_ctc_loss();
  register_linalg();
  register_fft();
}

}  // namespace tapegrad::backends::cuda
