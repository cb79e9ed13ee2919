// cuda_on_host runs kernels on the CPU, for tests. This header is included instead of the toolkit's
// <cuda_runtime.h> when a .cu file is compiled as plain C++.
//
// One kernel runs at a time, one block after another. The threads of a block are fibers that switch
// only at __syncthreads and warp collectives. Plain code and atomics therefore need no locks, and
// every fault is found reproducibly.
#pragma once
#define CUDA_ON_HOST 1
#include <cuda_runtime_api.h>  // the toolkit's header with plain C prototypes
#include <vector_functions.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>
#include <utility>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __launch_bounds__
#define __global__
#define __device__
#define __host__
// All shared variables are in one linker section, so that the runner can fill them with NaN bytes
// before each block. (g++ drops the attribute on shared variables of templates, clang++ keeps it.)
#define __shared__ static __attribute__((section("coh_shared")))
#define __launch_bounds__(...)

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

namespace coh {

enum class Op : std::uint8_t { kNone, kBlock, kWarpSync, kShuffle, kBallot };

/// Arguments and results of one lane in a collective.
struct Exchange {
  Op op = Op::kNone;
  unsigned mask = 0, size = 0, result = 0;
  int source = 0;  // lane to read, or predicate of a vote
  alignas(16) unsigned char in[16], out[16];
};

/// Submits work to a stream: it runs now, later (lazy mode), or is recorded (capture).
cudaError_t enqueue(cudaStream_t stream, std::function<void()> work, bool takes_time = true);
/// Aborts if a word of the argument is an address of host memory or of another device's memory,
/// which a GPU could not access.
void check_argument(const void* bytes, std::size_t size, const char* what);
[[noreturn]] void fail(const char* what);
void poison(void* p, std::size_t n);  // fills with bytes that are NaN in every float format

int block_barrier(int predicate);  // returns the sum over the block
Exchange& exchange(Op op, unsigned mask, int source, const void* in, unsigned size);
unsigned lane_id();
void* dynamic_shared_memory();

template <class T>
T shuffle(unsigned mask, T v, int source) {
  static_assert(std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8),
                "CUDA shuffles words of four or eight bytes");
  Exchange& e = exchange(Op::kShuffle, mask, source, &v, sizeof(T));
  T result;
  std::memcpy(&result, e.out, sizeof(T));
  return result;
}

struct Parameter {
  std::size_t size, align;
  bool is_clean;  // has no padding, so all bytes can be searched for addresses
};
using Call = void (*)(void (*kernel)(), void* const* arguments);

// Instantiated once per kernel signature, so it does as little as possible.
template <class... P, std::size_t... I>
void call_unpacked(void (*kernel)(), void* const* a, std::index_sequence<I...>) {
  reinterpret_cast<void (*)(P...)>(kernel)(*static_cast<P*>(a[I])...);
}
template <class... P>
void call_kernel(void (*kernel)(), void* const* a) {
  call_unpacked<P...>(kernel, a, std::index_sequence_for<P...>{});
}
/// Sets the padding between the members of an argument to 0, if the compiler can.
template <class P>
constexpr bool clear_padding([[maybe_unused]] void* argument) {
#if __has_builtin(__builtin_clear_padding)
  if (argument != nullptr) __builtin_clear_padding(static_cast<P*>(argument));
  return true;
#else
  return std::has_unique_object_representations_v<P>;
#endif
}
cudaError_t launch(void (*kernel)(), Call call, const Parameter* parameters, int count, dim3 grid,
                   dim3 block, void** arguments, std::size_t shared_bytes, cudaStream_t stream);

template <class... P>
cudaError_t launch(void (*kernel)(P...), dim3 grid, dim3 block, void** args,
                   std::size_t shared_bytes, cudaStream_t stream) {
  static_assert((std::is_trivially_copyable_v<std::remove_reference_t<P>> && ...),
                "kernel arguments are copied as bytes");
  static_assert((!std::is_reference_v<P> && ...), "no references as kernel arguments");
  static_assert((sizeof(P) + ... + 0) <= 4096, "kernel arguments are limited to 4 KB");
  [[maybe_unused]] std::size_t i = 0;
  (clear_padding<P>(args[i++]), ...);
  static constexpr Parameter kParameters[] = {{sizeof(P), alignof(P), clear_padding<P>(nullptr)}...,
                                              {0, 1, true}};
  return launch(reinterpret_cast<void (*)()>(kernel), &call_kernel<P...>, kParameters, sizeof...(P),
                grid, block, args, shared_bytes, stream);
}

}  // namespace coh

/// Template of the toolkit that selects a kernel by the type of its function.
template <class T>
cudaError_t cudaLaunchKernel(const T* kernel, dim3 grid, dim3 block, void** args,
                             std::size_t shared_bytes, cudaStream_t stream) {
  return coh::launch(kernel, grid, block, args, shared_bytes, stream);
}

// ---- synchronisation
inline void __syncthreads() { coh::block_barrier(0); }
inline int __syncthreads_count(int p) { return coh::block_barrier(p != 0); }
inline int __syncthreads_or(int p) { return coh::block_barrier(p != 0) != 0; }
inline void __syncwarp(unsigned mask = ~0u) {
  coh::exchange(coh::Op::kWarpSync, mask, -1, nullptr, 0);
}
inline void __threadfence() {}
inline void __threadfence_block() {}

template <class T>
T __shfl_sync(unsigned m, T v, int source, int width = 32) {
  const int lane = int(coh::lane_id());
  return coh::shuffle(m, v, (lane & ~(width - 1)) + (source & (width - 1)));
}
template <class T>
T __shfl_down_sync(unsigned m, T v, unsigned d, int width = 32) {
  const int lane = int(coh::lane_id()), s = lane + int(d);
  return coh::shuffle(m, v, (s & ~(width - 1)) == (lane & ~(width - 1)) ? s : lane);
}
template <class T>
T __shfl_up_sync(unsigned m, T v, unsigned d, int width = 32) {
  const int lane = int(coh::lane_id()), s = lane - int(d);
  return coh::shuffle(m, v, s >= (lane & ~(width - 1)) ? s : lane);
}
template <class T>
T __shfl_xor_sync(unsigned m, T v, int x, int width = 32) {
  const int lane = int(coh::lane_id()), s = lane ^ x;
  return coh::shuffle(m, v, (s & ~(width - 1)) <= (lane & ~(width - 1)) ? s : lane);
}
inline unsigned __ballot_sync(unsigned m, int p) {
  return coh::exchange(coh::Op::kBallot, m, p != 0, nullptr, 0).result;
}
inline int __any_sync(unsigned m, int p) { return __ballot_sync(m, p) != 0; }
inline int __all_sync(unsigned m, int p) { return __ballot_sync(m, !p) == 0; }

// ---- atomics: fibers never switch inside one
namespace coh {
template <class T>
T replace(T* p, T v) {
  const T old = *p;
  *p = v;
  return old;
}
}  // namespace coh
template <class T>
T atomicAdd(T* p, std::type_identity_t<T> v) {
  return coh::replace(p, T(*p + v));
}
template <class T>
T atomicMax(T* p, std::type_identity_t<T> v) {
  return coh::replace(p, std::max(*p, v));
}
template <class T>
T atomicMin(T* p, std::type_identity_t<T> v) {
  return coh::replace(p, std::min(*p, v));
}
