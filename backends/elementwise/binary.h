// Registers the elementwise kernels of ops/binary.h.
#pragma once

#include "backends/elementwise/elementwise.h"
#include "backends/formulas.h"
#include "ops/binary.h"
#include "ops/internal/kernels/pointwise.h"

namespace tapegrad::backends {

/// An unsigned integer as wide as T: values that are only moved keep their bits.
template <size_t kBytes>
using WordOf = std::conditional_t<
    kBytes == 1, uint8_t,
    std::conditional_t<kBytes == 2, uint16_t, std::conditional_t<kBytes == 4, uint32_t, uint64_t>>>;

/// Registers a > b as b < a, so that one loop serves both comparisons.
template <typename Device, auto& kKernel, typename Formula>
void register_mirrored() {
  Device::template set<kKernel>(
      kAllTypes, []<typename T>(TypeTag<T>, const Tensor& a, const Tensor& b, Tensor& y) {
        Device::template map<bool, T>(Formula{}, y, b, a);
      });
}

template <typename Device>
void register_binary_kernels() {
  using D = Elementwise<Device>;
  D::template set_arithmetic<kernels::add, formulas::Add>(kNumberTypes);
  D::template set_arithmetic<kernels::sub, formulas::Sub>(kNumberTypes);
  D::template set_arithmetic<kernels::mul, formulas::Mul>(kNumberTypes);
  // The sum of two conditions is their "or", the product their "and", as in PyTorch.
  D::template set<kernels::add, formulas::LogicalOr>(TypeList<bool>{});
  D::template set<kernels::mul, formulas::LogicalAnd>(TypeList<bool>{});
  D::template set_arithmetic<kernels::div, formulas::Div>(kFloatTypes);
  D::template set<kernels::div_backward, formulas::DivBackward>(kFloatTypes);
  D::template set_arithmetic<kernels::pow, formulas::Pow>(kNumberTypes);
  D::template set<kernels::maximum, formulas::Maximum>(kNumberTypes);
  D::template set<kernels::minimum, formulas::Minimum>(kNumberTypes);
  D::template set_arithmetic<kernels::atan2, formulas::Atan2>(kFloatTypes);
  D::template set<kernels::atan2_backward, formulas::Atan2Backward>(kFloatTypes);
  D::template set_arithmetic<kernels::fmod, formulas::Fmod>(kNumberTypes);

  D::template set_predicate<kernels::eq, formulas::Eq>(kAllTypes);
  D::template set_predicate<kernels::ne, formulas::Ne>(kAllTypes);
  D::template set_predicate<kernels::lt, formulas::Lt>(kAllTypes);
  D::template set_predicate<kernels::le, formulas::Le>(kAllTypes);
  register_mirrored<Device, kernels::gt, formulas::Lt>();
  register_mirrored<Device, kernels::ge, formulas::Le>();

  D::template set<kernels::logical_and, formulas::LogicalAnd>(TypeList<bool>{});
  D::template set<kernels::logical_or, formulas::LogicalOr>(TypeList<bool>{});
  D::template set<kernels::larger_gradient, formulas::LargerGradient>(kFloatTypes);

  Device::template set<kernels::where>(
      kAllTypes, []<typename T>(TypeTag<T>, const Tensor& a, const Tensor& b,
                                const Tensor& condition, Tensor& y) {
        using W = WordOf<sizeof(T)>;
        Device::template map<W, W, W, bool>(formulas::Select{}, y, a, b, condition);
      });
}

}  // namespace tapegrad::backends
