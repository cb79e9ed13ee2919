#include "ops/binary.h"

#include "backends/cpu/map.h"
#include "backends/cpu/register.h"
#include "backends/formulas.h"

namespace tapegrad::backends::cpu {
namespace {

/// An integer as wide as T: what is only moved keeps its bits.
template <typename T>
using Word =
    std::conditional_t<sizeof(T) == 1, uint8_t,
                       std::conditional_t<sizeof(T) == 2, uint16_t,
                                          std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;

/// a > b is b < a: one loop serves both.
template <typename Formula>
void register_mirrored(kernels::Binary& kernel) {
  set_kernel(kernel, DeviceType::kCpu, kAllTypes,
             []<typename T>(Type<T>, const Tensor& a, const Tensor& b, Tensor& y) {
               map_to<bool, T>(Formula{}, y, b, a);
             });
}

}  // namespace

void register_binary() {
  register_binary_formula<formulas::Add>(kernels::add, kNumberTypes);
  register_binary_formula<formulas::Sub>(kernels::sub, kNumberTypes);
  register_binary_formula<formulas::Mul>(kernels::mul, kNumberTypes);
  register_binary_formula<formulas::Div>(kernels::div, kFloatTypes);
  register_binary_formula<formulas::Pow>(kernels::pow, kNumberTypes);
  register_binary_formula<formulas::Maximum>(kernels::maximum, kNumberTypes);
  register_binary_formula<formulas::Minimum>(kernels::minimum, kNumberTypes);
  register_binary_formula<formulas::Atan2>(kernels::atan2, kFloatTypes);
  register_binary_formula<formulas::Fmod>(kernels::fmod, kNumberTypes);

  register_binary_predicate<formulas::Eq>(kernels::eq, kAllTypes);
  register_binary_predicate<formulas::Ne>(kernels::ne, kAllTypes);
  register_binary_predicate<formulas::Lt>(kernels::lt, kAllTypes);
  register_binary_predicate<formulas::Le>(kernels::le, kAllTypes);
  register_mirrored<formulas::Lt>(kernels::gt);
  register_mirrored<formulas::Le>(kernels::ge);

  register_binary_formula<formulas::LogicalAnd>(kernels::logical_and, TypeList<bool>{});
  register_binary_formula<formulas::LogicalOr>(kernels::logical_or, TypeList<bool>{});

  set_kernel(kernels::larger_gradient, DeviceType::kCpu, kFloatTypes,
             []<typename T>(Type<T>, const Tensor& dy, const Tensor& a, const Tensor& b,
                            Tensor& dx) { map<T>(formulas::LargerGradient{}, dx, dy, a, b); });
  set_kernel(kernels::where, DeviceType::kCpu, kAllTypes,
             []<typename T>(Type<T>, const Tensor& a, const Tensor& b, const Tensor& condition,
                            Tensor& y) {
               using W = Word<T>;
               map_types(Type<W>{}, TypeList<W, W, bool>{}, formulas::Select{}, y, a, b, condition);
             });
}

}  // namespace tapegrad::backends::cpu
