// Registers the elementwise kernels of ops/arithmetic.h, ops/bitwise.h and ops/compare.h, and the
// kernel of logsumexp's gradient.
#pragma once

#include "backends/elementwise/elementwise.h"
#include "backends/formulas_arithmetic.h"
#include "ops/arithmetic.h"
#include "ops/bitwise.h"
#include "ops/internal/kernels/pointwise.h"

namespace tapegrad::backends {

template <typename Device>
void register_arithmetic_kernels() {
  using D = Elementwise<Device>;
  constexpr TypeList<int8_t, int16_t, int32_t, int64_t, uint8_t> kIntegers{};
  constexpr TypeList<int8_t, int16_t, int32_t, int64_t, uint8_t, bool> kBits{};
  D::template set_arithmetic<kernels::xlogy, formulas::Xlogy>(kFloatTypes);
  D::template set_arithmetic<kernels::logaddexp, formulas::LogAddExp>(kFloatTypes);
  D::template set_arithmetic<kernels::hypot, formulas::Hypot>(kFloatTypes);
  D::template set<kernels::logaddexp_backward, formulas::LogAddExpBackward>(kFloatTypes);
  D::template set<kernels::hypot_backward, formulas::HypotBackward>(kFloatTypes);
  D::template set_arithmetic<kernels::remainder, formulas::Remainder>(kNumberTypes);
  D::template set_arithmetic<kernels::floor_divide, formulas::FloorDivide>(kNumberTypes);
  D::template set<kernels::logaddexp2, formulas::LogAddExp2>(kFloatTypes);
  D::template set<kernels::heaviside, formulas::Heaviside>(kFloatTypes);
  D::template set<kernels::fmax, formulas::Fmax>(kFloatTypes);
  D::template set<kernels::fmin, formulas::Fmin>(kFloatTypes);
  Device::template set<kernels::ldexp>(
      kFloatTypes, []<typename T>(TypeTag<T>, const Tensor& a, const Tensor& b, Tensor& y) {
        constexpr double kLargest = sizeof(T) == sizeof(double) ? 1022 : 126;
        Device::template map<T>(formulas::Ldexp{kLargest}, y, a, b);
      });
  D::template set<kernels::nextafter, formulas::NextAfter>(TypeList<float, double>());
  D::template set<kernels::copysign, formulas::Copysign>(kFloatTypes);
  D::template set<kernels::addcmul, formulas::Addcmul>(kFloatTypes);
  D::template set<kernels::addcdiv, formulas::Addcdiv>(kFloatTypes);
  D::template set<kernels::addr, formulas::Addr>(kFloatTypes);
  D::template set<kernels::logsumexp_backward, formulas::LogSumExpBackward>(kFloatTypes);
  D::template set<kernels::bitwise_and, formulas::BitwiseAnd>(kBits);
  D::template set<kernels::bitwise_or, formulas::BitwiseOr>(kBits);
  D::template set<kernels::bitwise_xor, formulas::BitwiseXor>(kBits);
  D::template set<kernels::bitwise_left_shift, formulas::LeftShift>(kIntegers);
  D::template set<kernels::bitwise_right_shift, formulas::RightShift>(kIntegers);
  D::template set<kernels::gcd, formulas::Gcd>(kIntegers);
  D::template set<kernels::lcm, formulas::Lcm>(kIntegers);
  Device::template set<kernels::lerp>(
      kFloatTypes, []<typename T>(TypeTag<T>, const Tensor& start, const Tensor& end,
                                  const Tensor& weight, Tensor& y) {
        if (weight.dtype() != y.dtype())  // a float32 number with sixteen-bit floats
          return Device::template map<T, T, T, Compute<T>>(formulas::Lerp{}, y, start, end, weight);
        Device::template map<T>(formulas::Lerp{}, y, start, end, weight);
      });
}

}  // namespace tapegrad::backends
