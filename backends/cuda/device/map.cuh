// Elementwise kernels: apply a formula of backends/formulas.h to tensors that broadcast.
//
//   map<T>(formulas::LeakyRelu{slope}, y, x);
//
// Contiguous operands are processed in packs, of 16 bytes for the widest type; other operands
// element by element at offsets computed from the index. Operands broadcast to y's shape. y may be
// one of the operands (with the same layout) and must not overlap them otherwise. If an operand has
// a packed layout (packed.h), so has y.
#pragma once

#include "backends/cuda/device/launch.cuh"
#include "backends/cuda/device/numeric.cuh"
#include "backends/cuda/layout/operands.h"
#include "backends/elementwise/elementwise.h"

namespace tapegrad::formulas {
struct Atan;
struct Cos;
struct Polygamma;
struct Sin;
struct Trigamma;
}  // namespace tapegrad::formulas

namespace tapegrad::backends::cuda {

/// Least number of blocks on a multiprocessor; 0: none. Without a number, ptxas spills registers of
/// these formulas to have room for more blocks.
template <typename F>
inline constexpr int kMapBlocks = 0;
template <>
inline constexpr int kMapBlocks<formulas::Atan> = 2;
template <>
inline constexpr int kMapBlocks<formulas::Cos> = 4;
template <>
inline constexpr int kMapBlocks<formulas::Polygamma> = 2;
template <>
inline constexpr int kMapBlocks<formulas::Sin> = 4;
template <>
inline constexpr int kMapBlocks<formulas::Trigamma> = 4;

/// Number of elements in 16 bytes of the widest type, at most 8.
template <typename... Ts>
constexpr int pack_size() {
  return std::min<int>(8, int(16 / std::max({sizeof(Ts)...})));
}

template <typename To, typename F, int kPack, typename... From>
__device__ Pack<To, kPack> evaluate(const F& f, const Pack<From, kPack>&... inputs) {
  Pack<To, kPack> results;
  for (int k = 0; k < kPack; ++k) results.v[k] = narrow<To>(f(widen(inputs.v[k])...));
  return results;
}

template <typename F, typename To, typename... From, size_t N, size_t... I>
__device__ void map_items(const F& f, const Operands<N>& o, std::index_sequence<I...>) {
  constexpr int kPack = pack_size<To, From...>();
  int64_t done = 0;
  if (o.packed) {
    done = o.count / kPack * kPack;
    To* to = static_cast<To*>(o.data[0]);
    for (int64_t i = first_item() * kPack; i < done; i += item_step() * kPack) {
      auto results = evaluate<To, F, kPack, From...>(f, o.template pack<From, kPack>(I + 1, i)...);
      *reinterpret_cast<Pack<To, kPack>*>(to + i) = results;
    }
  }
#pragma unroll 1
  for (int64_t i = done + first_item(); i < o.count; i += item_step())
    o.template element<To>(0, i) = narrow<To>(f(widen(o.template value<From>(I + 1, i))...));
}

template <typename F, typename To, typename... From>
__global__ void __launch_bounds__(kThreads, kMapBlocks<F>)
    map_kernel(F f, Operands<1 + sizeof...(From)> o) {
  map_items<F, To, From...>(f, o, std::index_sequence_for<From...>{});
}

/// Computes y = f(inputs...) elementwise.
///
///   map<T>(f, y, a, b)            all of type T
///   map<bool, T>(f, y, a, b)      inputs of type T
///   map<T, T, bool>(f, y, a, b)   inputs of types T and bool
template <typename To, typename... From, typename F, std::same_as<Tensor>... Inputs>
void map(const F& f, Tensor& y, const Inputs&... inputs) {
  constexpr size_t kOperands = 1 + sizeof...(Inputs);
  [&]<typename... X>(TypeList<X...>) {
    constexpr int kPack = pack_size<To, X...>();
    for_each_piece<kOperands>(
        {&y, &inputs...}, {sizeof(To), sizeof(X)...}, kPack, &f,
        [](const void* formula, const Operands<kOperands>& o, const Tensor& y) {
          launch(threads_for(o.count, y, o.packed ? kPack : 1), &map_kernel<F, To, X...>,
                 *static_cast<const F*>(formula), o);
        });
  }(map_inputs<sizeof...(Inputs), To, From...>());
}

/// CUDA as a Device of backends/elementwise/elementwise.h.
struct Cuda {
  template <auto& kKernel, typename Types, typename F>
  static void set(Types types, F function) {
    cuda::set<kKernel>(types, function, {.takes_packed = true});
  }
  template <typename... Types, typename F, std::same_as<Tensor>... Inputs>
  static void map(const F& f, Tensor& y, const Inputs&... inputs) {
    cuda::map<Types...>(f, y, inputs...);
  }
};

}  // namespace tapegrad::backends::cuda
