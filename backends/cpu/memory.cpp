// The kernels that core needs: fill, copy with conversion, accumulate.
#include "backends/cpu/map.h"
#include "backends/cpu/register.h"
#include "core/kernels.h"

namespace tapegrad::backends::cpu {
namespace {

/// y += x, where y broadcasts to x's shape.
template <typename T>
void accumulate(const Tensor& x, Tensor& y) {
  const T* from = x.data<T>();
  T* to = y.data<T>();
  for_each_row<2>(x.shape(), {x.strides(), broadcast_strides(y.layout(), x.shape())},
                  [&](auto at, auto step, int64_t count) {
                    for (int64_t i = 0; i < count; ++i) {
                      T& sum = to[at[1] + i * step[1]];
                      sum = T(Compute<T>(sum) + Compute<T>(from[at[0] + i * step[0]]));
                    }
                  });
}

/// y = x elementwise, of any two types; x broadcasts to y.
template <typename From, typename To>
void copy(const Tensor& x, Tensor& y) {
  const From* from = x.data<From>();
  To* to = y.data<To>();
  for_each_row<2>(y.shape(), {broadcast_strides(x.layout(), y.shape()), y.strides()},
                  [&](auto at, auto step, int64_t count) {
                    for (int64_t i = 0; i < count; ++i)
                      to[at[1] + i * step[1]] = convert<To>(from[at[0] + i * step[0]]);
                  });
}

}  // namespace

void register_memory() {
  set_kernel(kernels::fill, DeviceType::kCpu, kAllTypes,
             []<typename T>(Type<T>, Tensor& y, Number value) {
               const T element = value.to<T>();
               for_each_row<1>(y.shape(), {y.strides()}, [&](auto at, auto step, int64_t count) {
                 for (int64_t i = 0; i < count; ++i) y.data<T>()[at[0] + i * step[0]] = element;
               });
             });
  set_kernel(kernels::copy, DeviceType::kCpu, kAllTypes,
             []<typename T>(Type<T>, const Tensor& x, Tensor& y) {
               with_type(y.dtype(), [&]<typename To>(Type<To>) { copy<T, To>(x, y); });
             });
  set_kernel(kernels::accumulate, DeviceType::kCpu, kNumberTypes,
             []<typename T>(Type<T>, const Tensor& x, Tensor& y) { accumulate<T>(x, y); });
}

}  // namespace tapegrad::backends::cpu
