// Elementwise loops: apply a formula of backends/formulas.h to tensors that broadcast.
//
//   map<T>(formulas::LeakyRelu{slope}, y, x);
//
// backends/elementwise/ registers most elementwise kernels.
//
// Floats are always computed in batches: tails and strided operands are first gathered into a
// batch, so a value does not depend on its position, layout or thread. A formula sees V = a batch
// of float or double for float tensors (float for sixteen-bit types), and V = the element type for
// integers and bool. Formulas whose V differ (comparisons), and formulas that declare
// `static constexpr bool kScalar = true`, see scalars. Such formulas have no vector form or are
// exact, so they give one value everywhere, too. The compiler may vectorise their loops.
//
// Operands broadcast to y's shape and may have any layout. y may be one of the operands (with the
// same layout) and must not overlap them otherwise. If all operands have the same packed layout
// (packed.h), y gets this layout.
#pragma once

#include <array>
#include <span>

#include "backends/cpu/tools/simd.h"
#include "backends/elementwise/elementwise.h"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"  // with sanitizers loops are not vectorised
#endif

namespace tapegrad::backends::cpu {

/// Elements per task. Work of less than two blocks stays on one thread. The block size does not
/// depend on the number of threads.
inline constexpr int64_t kMapBlock = 16384;

/// Calls run(first, last) over [0, count) in blocks of size `block`, on several threads if there is
/// more than one block. run must not throw.
template <typename Run>
void for_each_block(int64_t count, int64_t block, const Run& run) {
  if (count <= block) {
    if (count > 0) run(int64_t(0), count);
    return;
  }
  const int64_t blocks = (count + block - 1) / block;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < blocks; ++i) run(i * block, std::min(count, (i + 1) * block));
}

namespace detail {

/// Applies a formula to `count` elements of contiguous memory.
using Evaluate = void (*)(const void* formula, std::byte* y, int64_t count,
                          const std::byte* const* inputs);
inline constexpr int kMaxInputs = 4;

/// Splits the work into contiguous pieces (gathering and scattering strided operands) and
/// distributes them to threads.
[[gnu::noinline]] void map_pieces(Evaluate evaluate, const void* formula, Tensor& y,
                                  std::span<const Tensor* const> inputs);

template <typename F>
constexpr bool is_scalar() {
  if constexpr (requires { F::kScalar; })
    return F::kScalar;
  else
    return false;
}

/// kFromMemory prefetches ahead. This pays off for operands outside of the caches; for small pieces
/// of broadcast operands it costs a few useless hints.
template <bool kFromMemory, typename To, typename From, typename F, typename... More>
void evaluate(const F& f, To* y, int64_t count, const From* x, const More*... more) {
  if constexpr (kIsFloat<To> && !is_scalar<F>() && std::is_same_v<Compute<To>, Compute<From>> &&
                (std::is_same_v<Compute<To>, Compute<More>> && ...)) {
    int64_t i = 0;
    for (; i + kLanes<To> <= count; i += kLanes<To>) {
      if constexpr (kFromMemory) {
        const int64_t next = i + kFetchAhead / int64_t(sizeof(To));
        fetch(x + next), (fetch(more + next), ...), fetch_to_write(y + next);
      }
      store_batch<To>(y + i, f(load_batch(x + i), load_batch(more + i)...));
    }
    if (i < count)
      store_some<To>(y + i, count - i,
                     f(load_some(x + i, count - i), load_some(more + i, count - i)...));
  } else {
#pragma omp simd  // y may be an operand, but overlaps none otherwise
    for (int64_t i = 0; i < count; ++i)
      y[i] = static_cast<To>(
          f(static_cast<Compute<From>>(x[i]), static_cast<Compute<More>>(more[i])...));
  }
}

}  // namespace detail

/// y = f(inputs...) elementwise.
///
///   map<T>(f, y, a, b)            all of type T
///   map<bool, T>(f, y, a, b)      inputs of type T
///   map<T, T, bool>(f, y, a, b)   inputs of types T and bool
template <typename To, typename... From, typename F, std::same_as<Tensor>... Inputs>
void map(const F& f, Tensor& y, const Inputs&... inputs) {
  [&]<typename... X>(TypeList<X...>) {
    const int64_t count = y.numel();
    if (y.is_contiguous() && count < 2 * kMapBlock &&
        ((inputs.is_contiguous() && inputs.numel() == count) && ...)) [[likely]]
      return detail::evaluate<false>(f, y.data<To>(), count, inputs.template data<const X>()...);
    const detail::Evaluate evaluate = [](const void* formula, std::byte* y, int64_t count,
                                         const std::byte* const* inputs) {
      [&]<size_t... I>(std::index_sequence<I...>) {
        detail::evaluate<true>(*static_cast<const F*>(formula), reinterpret_cast<To*>(y), count,
                               reinterpret_cast<const X*>(inputs[I])...);
      }
      (std::index_sequence_for<X...>());
    };
    const std::array<const Tensor*, sizeof...(X)> pointers{&inputs...};
    detail::map_pieces(evaluate, &f, y, pointers);
  }(map_inputs<sizeof...(Inputs), To, From...>());
}

/// The CPU as a Device of backends/elementwise/elementwise.h.
struct Cpu {
  template <auto& kKernel, typename Types, typename F>
  static void set(Types types, F function) {
    set_kernel(kKernel, DeviceType::kCpu, types, function,
               {.takes_packed = true, .parts = Parts::kElements});
  }
  template <typename... Types, typename F, std::same_as<Tensor>... Inputs>
  static void map(const F& f, Tensor& y, const Inputs&... inputs) {
    cpu::map<Types...>(f, y, inputs...);
  }
};

/// Calls inner(offsets, steps, count) for every row along the last dimension of the shape. offsets
/// and steps are in elements, one for each of the N operands.
template <size_t N, typename Inner>
void for_each_row(const Shape& shape, const std::array<Strides, N>& strides, Inner inner) {
  if (numel(shape) == 0) return;
  const int last = shape.rank() - 1;
  std::array<int64_t, N> offsets{}, steps{};
  if (last < 0) return inner(offsets, steps, int64_t(1));
  for (size_t i = 0; i < N; ++i) steps[i] = strides[i][last];
  std::array<int64_t, kMaxRank> index{};
  while (true) {
    inner(offsets, steps, shape[last]);
    int dim = last - 1;
    for (; dim >= 0; --dim) {
      for (size_t i = 0; i < N; ++i) offsets[i] += strides[i][dim];
      if (++index[dim] < shape[dim]) break;
      for (size_t i = 0; i < N; ++i) offsets[i] -= strides[i][dim] * shape[dim];
      index[dim] = 0;
    }
    if (dim < 0) return;
  }
}

}  // namespace tapegrad::backends::cpu
