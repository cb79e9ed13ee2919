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

#include <algorithm>
#include <array>
#include <span>
#include <tuple>

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

inline constexpr int kMaxInputs = 4;

/// Rows of elements of y and of the inputs of a formula. The elements of a row are contiguous in y
/// and in each input, except for inputs that have one element for each row.
struct MapRows {
  int64_t rows, count;                          // count: elements of a row of y
  std::array<int64_t, 1 + kMaxInputs> pitch{};  // elements from row to row, y first
  std::array<bool, kMaxInputs> constant{};      // whether the input has one element for each row
};

/// A formula of any type.
struct MapFormula {
  /// Applies the formula to rows, or, if !takes_rows, to one row without constant inputs.
  using Evaluate = void (*)(const void* formula, std::byte* y, const std::byte* const* inputs,
                            const MapRows& rows);
  Evaluate evaluate;
  const void* formula;
  bool takes_rows;
};

/// Splits the work into rows or into contiguous pieces (gathering and scattering strided operands),
/// and distributes them to threads.
[[gnu::noinline]] void map_pieces(const MapFormula& formula, Tensor& y,
                                  std::span<const Tensor* const> inputs);

template <typename F>
constexpr bool is_scalar() {
  if constexpr (requires { F::kScalar; })
    return F::kScalar;
  else
    return false;
}

/// Whether the formula is computed in batches.
template <typename F, typename To, typename... From>
inline constexpr bool kIsBatched =
    kIsFloat<To> && !is_scalar<F>() && (std::is_same_v<Compute<To>, Compute<From>> && ...);

/// Applies a formula to `count` elements of contiguous memory, at most one batch. Not inlined: the
/// formula is compiled twice in batches, here and in evaluate_rows().
template <typename To, typename... From, typename F>
[[gnu::noinline]] void evaluate_batch(const F& f, To* y, int64_t count, const From*... x) {
  store_some<To>(y, count, f(load_some(x, count)...));
}

/// Returns an element as the formula sees it. A bool is read as a byte, because g++ 12 vectorises
/// no loop that reads bool beside wider types.
template <typename From>
Compute<From> element_of(const From* x) {
  if constexpr (std::is_same_v<From, bool>)
    return *reinterpret_cast<const uint8_t*>(x) != 0;
  else
    return static_cast<Compute<From>>(*x);
}

/// Applies a formula to `count` elements of contiguous memory, element by element.
template <typename To, typename... From, typename F>
[[gnu::noinline]] void evaluate_scalars(const F& f, To* y, int64_t count, const From*... x) {
#pragma omp simd  // y may be an operand, but overlaps none otherwise
  for (int64_t i = 0; i < count; ++i) y[i] = static_cast<To>(f(element_of(x + i)...));
}

/// Fills an aligned buffer with one batch of equal elements and returns the buffer. A float is
/// stored at once: a load waits for the cache if its bytes come from several stores.
template <typename T>
const T* filled(T* buffer, T element) {
  if constexpr (std::is_same_v<T, Compute<T>>)
    Batch<T>(element).store_aligned(buffer);
  else
    std::fill_n(buffer, kLanes<T>, element);
  return buffer;
}

/// Applies a formula to rows, in batches. Prefetches ahead, which pays off for operands outside of
/// the caches and costs a few useless hints for others.
template <typename To, typename... From, typename F, size_t... K>
[[gnu::noinline]] void evaluate_rows(const F& f, To* y, const MapRows& rows,
                                     std::index_sequence<K...>, const From*... x) {
  constexpr int64_t kLane = kLanes<To>, kAhead = kFetchAhead / int64_t(sizeof(To));
  // Batches of equal elements, for the inputs that have one element for each row.
  alignas(64) std::byte equal[sizeof...(K)][64];
  static_assert(((kLane * sizeof(From) <= 64) && ...));
  const int64_t step[] = {(rows.constant[K] ? 0 : kLane)...};  // elements from batch to batch
  for (int64_t row = 0; row < rows.rows; ++row) {
    std::tuple<const From*...> at{
        (rows.constant[K] ? filled(reinterpret_cast<From*>(equal[K]), *x) : x)...};
    int64_t i = 0;
    for (; i + kLane <= rows.count; i += kLane) {
      (fetch(std::get<K>(at) + kAhead), ...), fetch_to_write(y + i + kAhead);
      store_batch<To>(y + i, f(load_batch(std::get<K>(at))...));
      ((std::get<K>(at) += step[K]), ...);
    }
    if (i < rows.count) evaluate_batch(f, y + i, rows.count - i, std::get<K>(at)...);
    y += rows.pitch[0];
    ((x += rows.pitch[1 + K]), ...);
  }
}

}  // namespace detail

/// Computes y = f(inputs...) elementwise.
///
///   map<T>(f, y, a, b)            all of type T
///   map<bool, T>(f, y, a, b)      inputs of type T
///   map<T, T, bool>(f, y, a, b)   inputs of types T and bool
template <typename To, typename... From, typename F, std::same_as<Tensor>... Inputs>
void map(const F& f, Tensor& y, const Inputs&... inputs) {
  [&]<typename... X>(TypeList<X...>) {
    using Indices = std::index_sequence_for<X...>;
    constexpr bool kBatched = detail::kIsBatched<F, To, X...>;
    const int64_t count = y.numel();
    if (y.is_contiguous() && count < 2 * kMapBlock &&
        ((inputs.is_contiguous() && inputs.numel() == count) && ...)) [[likely]] {
      if constexpr (!kBatched)
        return detail::evaluate_scalars(f, y.data<To>(), count, inputs.template data<const X>()...);
      else if (count == 0)
        return;
      else if (count < kLanes<To>)
        return detail::evaluate_batch(f, y.data<To>(), count, inputs.template data<const X>()...);
      else
        return detail::evaluate_rows(f, y.data<To>(), {.rows = 1, .count = count}, Indices(),
                                     inputs.template data<const X>()...);
    }
    const auto evaluate = [](const void* formula, std::byte* to, const std::byte* const* from,
                             const detail::MapRows& rows) {
      const F& apply = *static_cast<const F*>(formula);
      [&]<size_t... I>(std::index_sequence<I...> indices) {
        if constexpr (kBatched)
          detail::evaluate_rows(apply, reinterpret_cast<To*>(to), rows, indices,
                                reinterpret_cast<const X*>(from[I])...);
        else
          detail::evaluate_scalars(apply, reinterpret_cast<To*>(to), rows.count,
                                   reinterpret_cast<const X*>(from[I])...);
      }
      (Indices());
    };
    const std::array<const Tensor*, sizeof...(X)> pointers{&inputs...};
    detail::map_pieces({evaluate, &f, kBatched}, y, pointers);
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
