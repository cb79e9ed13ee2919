#include "ops/loss.h"
#include "ops/activation.h"

#include <cmath>

#include "backends/cpu/register.h"
#include "backends/cpu/tools/functions.h"
#include "backends/cpu/tools/map.h"
#include "core/base/error.h"

namespace tapegrad::backends::cpu {
namespace {

using formulas::Functions;

struct BinaryCrossEntropy {
  template <typename V>
  V operator()(V x, V t) const {
    const V low(-100);
    const V hit = xsimd::max(Functions<V>::log(x), low);
    const V miss = xsimd::max(Functions<V>::log1p(Functions<V>::negative(x)), low);
    return Functions<V>::negative(t * hit + (V(1) - t) * miss);
  }
};

struct LogSigmoid {
  template <typename V>
  V operator()(V x) const {
    const V decayed = Functions<V>::exp(Functions<V>::negative(Functions<V>::abs(x)));
    return xsimd::min(x, V(0)) - Functions<V>::log1p_of_fraction(decayed);
  }
};

template <typename T>
void check_classes(const Tensor& target, std::string_view op, int64_t classes,
                   int64_t ignore_index) {
  const T* ids = target.data<T>();
  for (int64_t i = 0; i < target.numel(); ++i)
    if (ids[i] != ignore_index && (ids[i] < 0 || ids[i] >= classes)) [[unlikely]]
      fail<IndexError>(op, ": target ", i, " is ", ids[i], ", not one of ", classes, " classes");
}

template <typename T>
void check_unit(const Tensor& x, std::string_view op) {
  const Tensor dense = x.contiguous();
  const T* values = dense.data<T>();
  for (int64_t i = 0; i < dense.numel(); ++i) {
    const Compute<T> value(values[i]);
    if (!(value >= 0 && value <= 1)) [[unlikely]]
      fail<ArgumentError>(op, ": element ", i, " is ", value, ", not a probability");
  }
}

}  // namespace

void register_loss() {
  set<kernels::check_classes>(TypeList<int64_t>{},
                              []<typename T>(TypeTag<T>, auto&... a) { check_classes<T>(a...); });
  set<kernels::check_unit>(kFloatTypes,
                           []<typename T>(TypeTag<T>, auto&... a) { check_unit<T>(a...); });
  set<kernels::binary_cross_entropy>(
      kFloatTypes, []<typename T>(TypeTag<T>, const Tensor& x, const Tensor& target, Tensor& y) {
        map<T>(BinaryCrossEntropy{}, y, x, target);
      });
  set<kernels::log_sigmoid>(kFloatTypes, []<typename T>(TypeTag<T>, const Tensor& x, Tensor& y) {
    map<T>(LogSigmoid{}, y, x);
  });
}

}  // namespace tapegrad::backends::cpu
