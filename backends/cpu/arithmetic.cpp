#include "ops/arithmetic.h"

#include "backends/cpu/functions.h"
#include "backends/cpu/map.h"
#include "backends/cpu/register.h"
#include "backends/formulas_arithmetic.h"

namespace tapegrad::backends::cpu {

void register_arithmetic() {
  constexpr TypeList<int8_t, int16_t, int32_t, int64_t, uint8_t> kIntegers{};
  constexpr TypeList<int8_t, int16_t, int32_t, int64_t, uint8_t, bool> kBits{};
  register_binary_formula<formulas::Xlogy>(kernels::xlogy, kFloatTypes);
  register_binary_formula<formulas::LogAddExp>(kernels::logaddexp, kFloatTypes);
  register_binary_formula<formulas::Hypot>(kernels::hypot, kFloatTypes);
  register_binary_formula<formulas::Remainder>(kernels::remainder, kNumberTypes);
  register_binary_formula<formulas::FloorDivide>(kernels::floor_divide, kNumberTypes);
  register_binary_formula<formulas::BitwiseAnd>(kernels::bitwise_and, kBits);
  register_binary_formula<formulas::BitwiseOr>(kernels::bitwise_or, kBits);
  register_binary_formula<formulas::BitwiseXor>(kernels::bitwise_xor, kBits);
  register_binary_formula<formulas::LeftShift>(kernels::bitwise_left_shift, kIntegers);
  register_binary_formula<formulas::RightShift>(kernels::bitwise_right_shift, kIntegers);
  register_binary_formula<formulas::Gcd>(kernels::gcd, kIntegers);
  set_kernel(kernels::lerp, DeviceType::kCpu, kFloatTypes,
             []<typename T>(Type<T>, const Tensor& start, const Tensor& end, const Tensor& weight,
                            Tensor& y) { map<T>(formulas::Lerp{}, y, start, end, weight); });
}

}  // namespace tapegrad::backends::cpu
