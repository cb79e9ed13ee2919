// Register functions of the CPU backend. Each kernel file ends with its register function;
// register.cpp calls all of them.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad::backends::cpu {

/// The types of cumulative sums and products; narrow_integers.cpp widens int8 and int16.
inline constexpr TypeList<float16, bfloat16, float, double, uint8_t, int32_t, int64_t, bool>
    kSummedTypes{};

/// Fills the slots of a kernel for the CPU.
template <auto& kKernel, typename Types, typename F>
void set(Types types, F function, const SlotTraits& traits = {}) {
  set_kernel(kKernel, DeviceType::kCpu, types, function, traits);
}

void register_kernels();  // calls all functions below; called by the dispatcher on first use

void register_memory();
void register_team();
void register_create();
void register_binary();
void register_unary();
void register_arithmetic();
void register_special();
void register_complex();
void register_sort();
void register_sketch();
void register_scan();
void register_scatter();
void register_histogram();
void register_activation();
void register_reduce();
void register_sum_rows();
void register_extremes();
void register_softmax();
void register_matmul();
void register_linalg();
void register_fft();
void register_conv();
void register_pad();       // defined in fast/pad_packed.cpp
void register_pad_from();  // defined in pad.cpp
void register_pool();
void register_sample();
void register_grid_sample();
void register_norm();
void register_group_norm();
void register_cdist();
void register_loss();
void register_cross_entropy();
void register_ctc_loss();
void register_recurrent();
void register_attention();
void register_index();
void register_embedding_bag();
void register_random();
void register_random_distributions();
void register_update();

}  // namespace tapegrad::backends::cpu
