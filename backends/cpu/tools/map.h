// Elementwise loops: a formula of backends/formulas.h applied to tensors that broadcast.
//
//   set_kernel(kernels::leaky_relu, DeviceType::kCpu, kFloatTypes,
//              []<typename T>(Type<T>, const Tensor& x, double slope, Tensor& y) {
//                map<T>(formulas::LeakyRelu{slope}, y, x);
//              });
//
// backends/elementwise/ registers most of them.
//
// Floats go through batches always: a tail or a strided operand is first gathered into one. So a
// value depends neither on its position nor on layout or thread. A formula sees V = a batch of
// float or double for float tensors (float for the sixteen-bit types), the element itself for
// integers and bool. Where types differ (comparisons), and for a formula that says
// `static constexpr bool kScalar = true`, it sees single numbers: with no vector form beside it, or
// exact, it too gives one value everywhere.
//
// Operands broadcast to y's shape and may have any layout. y may be one of them (the same layout),
// and must not overlap them otherwise. When all are packed alike (packed.h), so is y.
#pragma once

#include <array>
#include <span>

#include "backends/cpu/tools/simd.h"
#include "core/dispatch/dispatcher.h"

namespace tapegrad::backends::cpu {

/// Elements that one thread takes at a time. Work of less than two blocks stays on one thread; a
/// block is the same whatever the number of threads.
inline constexpr int64_t kMapBlock = 16384;

/// Calls run(first, last) over [0, count) in blocks of `block`, on several threads when there is
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

/// Runs a formula over `count` elements of contiguous memory.
using Evaluate = void (*)(const void* formula, std::byte* y, int64_t count,
                          const std::byte* const* inputs);
inline constexpr int kMaxInputs = 4;

/// Cuts the work into contiguous pieces (gathering and scattering what is not) and threads.
[[gnu::noinline]] void map_pieces(Evaluate evaluate, const void* formula, Tensor& y,
                                  std::span<const Tensor* const> inputs);

template <typename F>
constexpr bool is_scalar() {
  if constexpr (requires { F::kScalar; })
    return F::kScalar;
  else
    return false;
}

/// kFromMemory: asks for what lies ahead. Worth it where operands do not lie in a cache; small ones
/// that come in pieces, because they broadcast, have a few hints for nothing.
template <bool kFromMemory, typename To, typename From, typename F, typename... More>
void evaluate(const F& f, To* y, int64_t count, const From* x, const More*... more) {
  if constexpr (kIsFloat<To> && !is_scalar<F>() && std::is_same_v<To, From> &&
                (std::is_same_v<To, More> && ...)) {
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
    for (int64_t i = 0; i < count; ++i)
      y[i] = static_cast<To>(
          f(static_cast<Compute<From>>(x[i]), static_cast<Compute<More>>(more[i])...));
  }
}

}  // namespace detail

/// y = f(inputs...) elementwise, each input with its own type.
template <typename To, typename... From, typename F, std::same_as<Tensor>... Inputs>
void map_types(Type<To>, TypeList<From...>, const F& f, Tensor& y, const Inputs&... inputs) {
  static_assert(sizeof...(From) == sizeof...(Inputs));
  const int64_t count = y.numel();
  if (y.is_contiguous() && count < 2 * kMapBlock &&
      ((inputs.is_contiguous() && inputs.numel() == count) && ...)) [[likely]]
    return detail::evaluate<false>(f, y.data<To>(), count, inputs.template data<const From>()...);
  const std::array<const Tensor*, sizeof...(Inputs)> pointers{&inputs...};
  detail::map_pieces(
      [](const void* formula, std::byte* y, int64_t count, const std::byte* const* inputs) {
        [&]<size_t... I>(std::index_sequence<I...>) {
          detail::evaluate<true>(*static_cast<const F*>(formula), reinterpret_cast<To*>(y), count,
                                 reinterpret_cast<const From*>(inputs[I])...);
        }
        (std::index_sequence_for<Inputs...>());
      },
      &f, y, pointers);
}

/// The same from one type to another.
template <typename To, typename From, typename F, std::same_as<Tensor>... Inputs>
void map_to(const F& f, Tensor& y, const Inputs&... inputs) {
  [&]<size_t... I>(std::index_sequence<I...>) {
    map_types(Type<To>{}, TypeList<std::enable_if_t<(I >= 0), From>...>{}, f, y, inputs...);
  }
  (std::index_sequence_for<Inputs...>());
}

/// The same with one type for all.
template <typename T, typename F, std::same_as<Tensor>... Inputs>
void map(const F& f, Tensor& y, const Inputs&... inputs) {
  map_to<T, T>(f, y, inputs...);
}

/// How backends/elementwise/ runs formulas here.
struct Cpu {
  template <auto& kKernel, typename Types, typename F>
  static void set(Types types, F function) {
    set_kernel(kKernel, DeviceType::kCpu, types, function);
    kKernel.set_takes_packed();
  }
  template <typename T, typename F, std::same_as<Tensor>... Inputs>
  static void map(const F& f, Tensor& y, const Inputs&... inputs) {
    cpu::map<T>(f, y, inputs...);
  }
  template <typename To, typename From, typename F, std::same_as<Tensor>... Inputs>
  static void map_to(const F& f, Tensor& y, const Inputs&... inputs) {
    cpu::map_to<To, From>(f, y, inputs...);
  }
  template <typename To, typename... From, typename F, std::same_as<Tensor>... Inputs>
  static void map_types(Type<To> to, TypeList<From...> from, const F& f, Tensor& y,
                        const Inputs&... inputs) {
    cpu::map_types(to, from, f, y, inputs...);
  }
};

/// Calls inner(offsets, steps, count) for every row along the last dimension of the shape, where
/// offsets and steps are in elements, one for each of the N operands.
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
