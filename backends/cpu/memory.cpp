// The kernels that core needs: fill, copy with conversion, accumulate.
#include "backends/cpu/map.h"
#include "backends/cpu/register.h"
#include "core/kernels.h"

namespace tapegrad::backends::cpu {
namespace {

struct Plus {
  template <typename T>
  T operator()(T a, T b) const {
    return T(Compute<T>(a) + Compute<T>(b));
  }
};

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
               map<T>(y, y, [element](T) { return element; });
             });
  set_kernel(kernels::copy, DeviceType::kCpu, kAllTypes,
             []<typename T>(Type<T>, const Tensor& x, Tensor& y) {
               with_type(y.dtype(), [&]<typename To>(Type<To>) { copy<T, To>(x, y); });
             });
  set_kernel(
      kernels::accumulate, DeviceType::kCpu, kNumberTypes,
      []<typename T>(Type<T>, const Tensor& x, Tensor& y) {
        if (x.shape() == y.shape()) return map<T>(y, x, y, Plus{});
        // y's own layout, read with x's shape: its repeated dimensions take the sum.
        const Layout target{x.shape(), broadcast_strides(y.layout(), x.shape()), y.layout().offset};
        Tensor sum = y.with_layout(target);
        map<T>(sum, x, sum, Plus{});
      });
}

}  // namespace tapegrad::backends::cpu
