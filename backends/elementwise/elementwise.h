// Registration of elementwise kernels, shared by all devices. The files of backends/elementwise/
// tell which formula computes which kernel; a Device tells how to run a formula.
//
// A Device has these static members:
//
//   set<kernels::exp>(types, function)           fills the kernel's slots
//   map<To, From...>(formula, y, inputs...)      y = formula(inputs...)
//
// y is of type To. From is one type for each input, one type for all of them, or empty if it is To.
// Inputs broadcast to y's shape; y may alias an input.
#pragma once

#include <tuple>
#include <type_traits>

#include "core/dispatch/dispatcher.h"

namespace tapegrad::backends {

/// Returns the input types of map<To, From...>() with kInputs inputs, as a TypeList.
template <size_t kInputs, typename To, typename... From>
constexpr auto map_inputs() {
  if constexpr (sizeof...(From) == kInputs) {
    return TypeList<From...>();
  } else {
    static_assert(sizeof...(From) <= 1);
    return []<size_t... I>(std::index_sequence<I...>) {
      return TypeList<std::tuple_element_t<I * 0, std::tuple<From..., To>>...>();
    }
    (std::make_index_sequence<kInputs>());
  }
}

/// The function of a kernel: y = Formula{numbers...}(inputs...), with y of the inputs' type or
/// bool. Not a member of Elementwise, because the host code that nvcc generates names this type.
template <typename Device, typename Formula, bool kPredicate>
struct RunFormula {
  template <typename T>
  using To = std::conditional_t<kPredicate, bool, T>;

  template <typename T>
  void operator()(TypeTag<T>, const Tensor& a, Tensor& y) const {
    Device::template map<To<T>, T>(Formula(), y, a);
  }
  template <typename T>
  void operator()(TypeTag<T>, const Tensor& a, const Tensor& b, Tensor& y) const {
    Device::template map<To<T>, T>(Formula(), y, a, b);
  }
  template <typename T>
  void operator()(TypeTag<T>, const Tensor& a, const Tensor& b, const Tensor& c, Tensor& y) const {
    Device::template map<To<T>, T>(Formula(), y, a, b, c);
  }
  // Kernels with numbers between the inputs and y: the members of the formula.
  template <typename T, typename A>
  requires std::is_arithmetic_v<A>
  void operator()(TypeTag<T>, const Tensor& x, A first, Tensor& y) const {
    Device::template map<T>(Formula{first}, y, x);
  }
  template <typename T>
  void operator()(TypeTag<T>, const Tensor& x, double first, double second, Tensor& y) const {
    Device::template map<T>(Formula{first, second}, y, x);
  }
  template <typename T>
  void operator()(TypeTag<T>, const Tensor& dy, const Tensor& x, double first, Tensor& dx) const {
    Device::template map<T>(Formula{first}, dx, dy, x);
  }
  template <typename T>
  void operator()(TypeTag<T>, const Tensor& a, const Tensor& b, const Tensor& c, double first,
                  Tensor& y) const {
    Device::template map<T>(Formula{first}, y, a, b, c);
  }
  template <typename T>
  void operator()(TypeTag<T>, const Tensor& a, const Tensor& b, const Tensor& c, double first,
                  double second, Tensor& y) const {
    Device::template map<T>(Formula{first, second}, y, a, b, c);
  }
  template <typename T>
  void operator()(TypeTag<T>, const Tensor& dy, const Tensor& x, double first, double second,
                  Tensor& dx) const {
    Device::template map<T>(Formula{first, second}, dx, dy, x);
  }
};

template <typename Device>
class Elementwise {
 public:
  /// Computes y = Formula()(inputs...), all of one type.
  template <auto& kKernel, typename Formula, typename Types>
  static void set(Types types) {
    Device::template set<kKernel>(types, RunFormula<Device, Formula, false>());
  }
  /// Computes y = Formula()(inputs...), where y is bool.
  template <auto& kKernel, typename Formula, typename Types>
  static void set_predicate(Types types) {
    Device::template set<kKernel>(types, RunFormula<Device, Formula, true>());
  }
  /// Registers an arithmetic kernel. If y is sixteen-bit, one operand may be a float32 number,
  /// which is not rounded first. The first operand selects the kernel, so the float32 kernel
  /// handles a number as first operand.
  template <auto& kKernel, typename Formula, typename Types>
  static void set_arithmetic(Types types) {
    Device::template set<kKernel>(
        types, []<typename T>(TypeTag<T>, const Tensor& a, const Tensor& b, Tensor& y) {
          if constexpr (std::is_same_v<T, float>) {
            if (y.dtype() == f16) [[unlikely]]
              return mixed<Formula, float16, float, float16>(a, b, y);
            if (y.dtype() == bf16) [[unlikely]]
              return mixed<Formula, bfloat16, float, bfloat16>(a, b, y);
          } else if constexpr (std::is_same_v<Compute<T>, float>) {
            if (b.dtype() == f32) return mixed<Formula, T, T, float>(a, b, y);
          }
          Device::template map<T>(Formula{}, y, a, b);
        });
  }

 private:
  template <typename Formula, typename To, typename A, typename B>
  [[gnu::noinline]] static void mixed(const Tensor& a, const Tensor& b, Tensor& y) {
    Device::template map<To, A, B>(Formula{}, y, a, b);
  }
};

}  // namespace tapegrad::backends
