// Register functions of the CUDA backend. Each kernel file ends with its register function;
// register.cpp calls all of them.
#pragma once

namespace tapegrad::backends::cuda {

void register_copy();
void register_memory();
void register_create();
void register_unary();
void register_binary();
void register_activation();
void register_arithmetic();
void register_special();
void register_reduce();
void register_softmax();
void register_matmul();
void register_linear();
void register_attention();
void register_attention_backward();
void register_norm();
void register_layer_norm();
void register_recurrent();
void register_index();
void register_scatter();
void register_update();
void register_loss();
void register_conv();
void register_pool();
void register_random();
void register_random_distributions();
void register_sample();
void register_scan();
void register_sort();
void register_ctc_loss();
void register_linalg();
void register_fft();

}  // namespace tapegrad::backends::cuda
