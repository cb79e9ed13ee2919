// Registers the elementwise kernels of ops/arithmetic.h.
#pragma once

#include "backends/elementwise/elementwise.h"
#include "backends/formulas_arithmetic.h"
#include "ops/arithmetic.h"

namespace tapegrad::backends {

template <typename Device>
void register_arithmetic_kernels() {
  using D = Elementwise<Device>;
  constexpr TypeList<int8_t, int16_t, int32_t, int64_t, uint8_t> kIntegers{};
  constexpr TypeList<int8_t, int16_t, int32_t, int64_t, uint8_t, bool> kBits{};
  D::template binary<kernels::xlogy, formulas::Xlogy>(kFloatTypes);
  D::template binary<kernels::logaddexp, formulas::LogAddExp>(kFloatTypes);
  D::template binary<kernels::hypot, formulas::Hypot>(kFloatTypes);
  D::template binary<kernels::remainder, formulas::Remainder>(kNumberTypes);
  D::template binary<kernels::floor_divide, formulas::FloorDivide>(kNumberTypes);
  D::template binary<kernels::bitwise_and, formulas::BitwiseAnd>(kBits);
  D::template binary<kernels::bitwise_or, formulas::BitwiseOr>(kBits);
  D::template binary<kernels::bitwise_xor, formulas::BitwiseXor>(kBits);
  D::template binary<kernels::bitwise_left_shift, formulas::LeftShift>(kIntegers);
  D::template binary<kernels::bitwise_right_shift, formulas::RightShift>(kIntegers);
  D::template binary<kernels::gcd, formulas::Gcd>(kIntegers);
  Device::template set<kernels::lerp>(
      kFloatTypes, []<typename T>(Type<T>, const Tensor& start, const Tensor& end,
                                  const Tensor& weight, Tensor& y) {
        Device::template map<T>(formulas::Lerp{}, y, start, end, weight);
      });
}

}  // namespace tapegrad::backends
