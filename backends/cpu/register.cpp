#include "backends/cpu/register.h"

#include <omp.h>
#include <pthread.h>

namespace tapegrad::backends::cpu {
namespace {

/// A forked child does not have the threads of OpenMP and would wait for them for ever. The child
/// therefore uses one thread; values are the same for any number of threads.
void work_alone_in_children() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { omp_set_num_threads(1); });
}

}  // namespace

void register_kernels() {
  work_alone_in_children();
  register_memory();
  register_team();
  register_create();
  register_binary();
  register_unary();
  register_arithmetic();
  register_special();
  register_complex();
  register_sort();
  register_sketch();
  register_scan();
  register_scatter();
  register_histogram();
  register_activation();
  register_reduce();
  register_sum_rows();
  register_extremes();
  register_softmax();
  register_matmul();
  register_linalg();
  register_fft();
  register_conv();
  register_pad();
  register_pad_from();
  register_pool();
  register_sample();
  register_grid_sample();
  register_norm();
  register_group_norm();
  register_cdist();
  register_loss();
  register_cross_entropy();
  register_ctc_loss();
  register_recurrent();
  register_attention();
  register_index();
  register_embedding_bag();
  register_random();
  register_random_distributions();
  register_update();
}

}  // namespace tapegrad::backends::cpu
