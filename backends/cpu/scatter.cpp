#include "ops/scatter.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "backends/cpu/register.h"
#include "backends/cpu/tools/index_loops.h"
#include "backends/formulas.h"
#include "ops/internal/kernels/scatter.h"

namespace tapegrad::backends::cpu {
namespace {

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"  // with sanitizers loops are not vectorised
#endif

template <typename W>
void scatter_along(const Tensor& source, const Tensor& index, int dim, Tensor& y) {
  const W* from = source.data<W>();
  W* to = y.data<W>();
  for_each_meant(y, index, dim, [=](int64_t p, int64_t q) { to[q] = from[p]; });
}

/// Calls write(to, from, count) for the parts of each slice, in the order of the index.
template <typename T, typename Write>
void write_slices(const Tensor& source, const Tensor& index, int dim, Tensor& y,
                  const Write& write) {
  const int64_t* which = index.data<int64_t>();
  const int64_t count = index.numel(), size = y.shape()[dim];
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < dim; ++i) outer *= y.shape()[i];
  for (int i = dim + 1; i < y.rank(); ++i) inner *= y.shape()[i];
  const bool one = source.rank() == 0;
  const T* from = source.data<T>();
  T* to = y.data<T>();
  // One thread writes, in order, all slices of some columns.
  const int64_t width = std::min<int64_t>(inner, 4 * kColumns);
  const int64_t blocks = (inner + width - 1) / width;
#pragma omp parallel for collapse(2) if (outer * count * inner > kParallelAbove)
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t column = block * width, n = std::min(width, inner - column);
      const T* lines = from + (one ? 0 : o * count * inner + column);
      T* into = to + o * size * inner + column;
      for (int64_t k = 0; k < count; ++k)
        write(into + which[k] * inner, lines + (one ? 0 : k * inner), n);
    }
}

template <typename W>
void index_copy(const Tensor& source, const Tensor& index, int dim, Tensor& y) {
  if (source.rank() == 0)
    return write_slices<W>(source, index, dim, y,
                           [](W* to, const W* from, int64_t n) { std::fill_n(to, n, *from); });
  write_slices<W>(source, index, dim, y, [](W* to, const W* from, int64_t n) {
    if (n == 1)
      *to = *from;
    else
      std::memcpy(to, from, size_t(n) * sizeof(W));
  });
}

template <typename T>
void index_accumulate(const Tensor& source, const Tensor& index, int dim, Tensor& y) {
  write_slices<T>(source, index, dim, y, [](T* to, const T* from, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] = T(to[i] + from[i]);
  });
}

template <typename Formula, typename T>
void combine(const Tensor& source, const Tensor& index, int dim, Tensor& y) {
  if (index.numel() != source.numel())
    return write_slices<T>(source, index, dim, y, [](T* to, const T* from, int64_t n) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) to[i] = Formula{}(to[i], from[i]);
    });
  const T* from = source.data<T>();
  T* to = y.data<T>();
  for_each_meant(y, index, dim, [=](int64_t p, int64_t q) { to[q] = Formula{}(to[q], from[p]); });
}

template <typename T>
void scatter_reduce(const Tensor& source, const Tensor& index, int dim, Reduce reduce, Tensor& y) {
  switch (reduce) {
    case Reduce::kProd:
      return combine<formulas::Mul, T>(source, index, dim, y);
    case Reduce::kAmax:
      return combine<formulas::Maximum, T>(source, index, dim, y);
    default:
      return combine<formulas::Minimum, T>(source, index, dim, y);
  }
}

/// 0 and 1 by a bool: a load, where g++ 12 would compile a conversion to a branch.
template <typename T>
constexpr T kTruth[] = {0, 1};

template <typename T>
void count_extremes(const Tensor& source, const Tensor& extremes, const Tensor& index, int dim,
                    Tensor& counts) {
  const T *from = source.data<T>(), *most = extremes.data<T>();
  T* const to = counts.data<T>();
  if (index.numel() != source.numel())
    return write_slices<T>(source, index, dim, counts, [=](T* line, const T* x, int64_t n) {
      const T* const at = most + (line - to);
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) line[i] += T(x[i] == at[i]);
    });
  for_each_meant(counts, index, dim,
                 [=](int64_t p, int64_t q) { to[q] += kTruth<T>[from[p] == most[q]]; });
}

template <typename T>
void share_extremes(const Tensor& source, const Tensor& extremes, const Tensor& share,
                    const Tensor& index, int dim, Tensor& dx) {
  const T *from = source.data<T>(), *most = extremes.data<T>(), *part = share.data<T>();
  T* const to = dx.data<T>();
  Tensor places = share;
  if (index.numel() != source.numel())
    return write_slices<T>(source, index, dim, places, [=](const T* line, const T* x, int64_t n) {
      const T* const at = most + (line - part);
      T* const into = to + (x - from);
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) into[i] = T(x[i] == at[i]) * line[i];
    });
  for_each_meant(places, index, dim,
                 [=](int64_t p, int64_t q) { to[p] = kTruth<T>[from[p] == most[q]] * part[q]; });
}

template <typename T>
void nonzero(const Tensor& x, Tensor& positions) {
  const T* from = x.data<T>();
  int64_t* to = positions.data<int64_t>();
  const int64_t count = x.numel();
  int64_t* const end = to + positions.numel();
  for (int64_t i = 0; i < count && to < end; ++i) {
    *to = i;  // overwritten unless the element counts
    to += Compute<T>(from[i]) != Compute<T>(0);
  }
}

void places_of(const Tensor& positions, const Shape& shape, Tensor& places) {
  const int rank = shape.rank();
  const int64_t size = shape[rank - 1];
  const int64_t* from = positions.data<int64_t>();
  int64_t* to = places.data<int64_t>();
  std::array<int64_t, kMaxRank> outer;  // of the row that begins at position `row`
  int64_t row = 0, end = 0;
  for (int64_t i = 0; i < positions.numel(); ++i, to += rank) {
    if (from[i] >= end) {
      int64_t rest = from[i] / size;
      row = rest * size, end = row + size;
      for (int dim = rank - 2; dim >= 0; --dim) {
        outer[size_t(dim)] = rest % shape[dim];
        rest /= shape[dim];
      }
    }
    for (int dim = 0; dim + 1 < rank; ++dim) to[dim] = outer[size_t(dim)];
    to[rank - 1] = from[i] - row;
  }
}

}  // namespace

void register_scatter() {
  set<kernels::scatter>(
      kAllTypes, []<typename T>(TypeTag<T>, auto&... a) { scatter_along<Word<sizeof(T)>>(a...); });
  set<kernels::index_copy>(
      kAllTypes, []<typename T>(TypeTag<T>, auto&... a) { index_copy<Word<sizeof(T)>>(a...); });
  // The ops convert sixteen-bit floats to float32.
  set<kernels::index_accumulate>(
      TypeList<float, double, uint8_t, int32_t, int64_t>{},
      []<typename T>(TypeTag<T>, auto&... a) { index_accumulate<T>(a...); });
  set<kernels::scatter_reduce>(TypeList<float, double, uint8_t, int32_t, int64_t>{},
                               []<typename T>(TypeTag<T>, auto&... a) { scatter_reduce<T>(a...); });
  set<kernels::count_extremes>(TypeList<float, double>{},
                               []<typename T>(TypeTag<T>, auto&... a) { count_extremes<T>(a...); });
  set<kernels::share_extremes>(TypeList<float, double>{},
                               []<typename T>(TypeTag<T>, auto&... a) { share_extremes<T>(a...); });
  set<kernels::nonzero>(kAllTypes, []<typename T>(TypeTag<T>, auto&... a) { nonzero<T>(a...); });
  set<kernels::places_of>(TypeList<int64_t>{}, [](auto, auto&... a) { places_of(a...); });
}

}  // namespace tapegrad::backends::cpu
