#include "ops/scatter.h"

#include "backends/cpu/register.h"
#include "backends/cpu/tools/index_loops.h"
#include "backends/formulas.h"

namespace tapegrad::backends::cpu {
namespace {

template <typename Formula, typename T>
void combine(const Tensor& source, const Tensor& index, int dim, Tensor& y) {
  const T* from = source.data<T>();
  T* to = y.data<T>();
  for_each_meant(y, index, dim, [=](int64_t p, int64_t q) { to[q] = Formula{}(to[q], from[p]); });
}

template <typename T>
void scatter(const Tensor& source, const Tensor& index, int dim, Tensor& y) {
  using W = Word<sizeof(T)>;
  const W* from = source.data<W>();
  W* to = y.data<W>();
  for_each_meant(y, index, dim, [=](int64_t p, int64_t q) { to[q] = from[p]; });
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

template <typename T>
void nonzero(const Tensor& x, Tensor& positions) {
  const T* from = x.data<T>();
  int64_t* to = positions.data<int64_t>();
  const int64_t count = x.numel();
  for (int64_t i = 0; i < count; ++i)
    if (Compute<T>(from[i]) != Compute<T>(0)) *to++ = i;
}

}  // namespace

void register_scatter() {
  set<kernels::scatter>(kAllTypes, []<typename T>(Type<T>, auto&... a) { scatter<T>(a...); });
  // The op converts sixteen-bit floats to float32.
  set<kernels::scatter_reduce>(TypeList<float, double, uint8_t, int32_t, int64_t>{},
                               []<typename T>(Type<T>, auto&... a) { scatter_reduce<T>(a...); });
  set<kernels::nonzero>(kAllTypes, []<typename T>(Type<T>, auto&... a) { nonzero<T>(a...); });
}

}  // namespace tapegrad::backends::cpu
