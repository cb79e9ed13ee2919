#include "ops/settings.h"

#include <cfloat>
#include <concepts>
#include <limits>

#include "core/base/error.h"
#include "core/dispatch/internal/backends.h"
#include "ops/internal/operands.h"

namespace tapegrad {

DType result_type(const Operand& a, const Operand& b) {
  if (a.variable == nullptr && b.variable == nullptr)
    return promote(scalar(a.number).dtype(), b.number);
  if (a.variable == nullptr) return result_type(b, a);
  if (b.variable == nullptr) return promote(a.variable->dtype(), b.number);
  return detail::common_dtype("result_type", *a.variable, b);
}

FloatInfo finfo(DType dtype) {
  if (!is_float(dtype)) fail<DTypeError>("finfo: ", dtype, " is no float type; use iinfo");
  switch (dtype) {
    case f64:
      return {64, std::numeric_limits<double>::epsilon(), DBL_MAX, -DBL_MAX, DBL_MIN};
    case f16:
      return {16, 0x1p-10, 65504, -65504, 0x1p-14};
    case bf16:
      return {16, 0x1p-7, 0x1.fep127, -0x1.fep127, 0x1p-126};
    default:
      return {32, std::numeric_limits<float>::epsilon(), FLT_MAX, -FLT_MAX, FLT_MIN};
  }
}

IntegerInfo iinfo(DType dtype) {
  if (!is_integer(dtype)) fail<DTypeError>("iinfo: ", dtype, " is no integer type; use finfo");
  return with_type(dtype, []<typename T>(TypeTag<T>) -> IntegerInfo {
    if constexpr (std::integral<T>)
      return {int(8 * sizeof(T)), int64_t(std::numeric_limits<T>::max()),
              int64_t(std::numeric_limits<T>::min())};
    else
      return {};
  });
}

void set_num_threads(int64_t count) {
  if (count < 1 || count > 1024)
    fail<ArgumentError>("set_num_threads: ", count, " is outside [1, 1024]");
  backends::cpu::set_num_threads(int(count));
}
int64_t get_num_threads() { return backends::cpu::num_threads(); }

DType promote_types(DType a, DType b) { return promote(a, b); }
bool can_cast(DType from, DType to) {
  if (to == boolean) return from == boolean;
  return !is_float(from) || is_float(to);
}
DType get_default_dtype() { return default_dtype(); }
void set_float32_matmul_precision(Choice<MatmulPrecision> precision) {
  set_matmul_precision(precision);
}
}  // namespace tapegrad

namespace tapegrad::cuda {
void empty_cache() {
  if (tapegrad::is_available(gpu)) tapegrad::empty_cache(gpu);
}
}  // namespace tapegrad::cuda

namespace tapegrad {
RandomState get_rng_state() { return default_generator().state(); }
void set_rng_state(RandomState state) { default_generator().set_state(state); }
uint64_t initial_seed() { return default_generator().state().seed; }
}  // namespace tapegrad
