// Registration of elementwise kernels, shared by all devices. The files of backends/elementwise/
// tell which formula computes which kernel; a Device tells how to run a formula.
//
// A Device has these static members:
//
//   set<kernels::exp>(types, function)           fills the kernel's slots
//   map<T>(formula, y, inputs...)                y = formula(inputs...), all of type T
//   map_to<To, From>(formula, y, inputs...)      inputs of type From, y of type To
//   map_types(Type<To>{}, TypeList<From...>{}, formula, y, inputs...)
//
// Inputs broadcast to y's shape; y may alias an input.
#pragma once

#include "core/dispatch/dispatcher.h"

namespace tapegrad::backends {

template <typename Device>
struct Elementwise {
  template <auto& kKernel, typename Formula, typename Types>
  static void unary(Types types) {
    Device::template set<kKernel>(types, []<typename T>(Type<T>, const Tensor& x, Tensor& y) {
      Device::template map<T>(Formula{}, y, x);
    });
  }
  template <auto& kKernel, typename Formula, typename Types>
  static void binary(Types types) {
    Device::template set<kKernel>(
        types, []<typename T>(Type<T>, const Tensor& a, const Tensor& b, Tensor& y) {
          Device::template map<T>(Formula{}, y, a, b);
        });
  }
  /// Registers an arithmetic kernel. If y is sixteen-bit, one operand may be a float32 number,
  /// which is not rounded first. The first operand selects the kernel, so the float32 kernel
  /// handles a number as first operand.
  template <auto& kKernel, typename Formula, typename Types>
  static void arithmetic(Types types) {
    Device::template set<kKernel>(
        types, []<typename T>(Type<T>, const Tensor& a, const Tensor& b, Tensor& y) {
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
  /// y is bool.
  template <auto& kKernel, typename Formula, typename Types>
  static void unary_predicate(Types types) {
    Device::template set<kKernel>(types, []<typename T>(Type<T>, const Tensor& x, Tensor& y) {
      Device::template map_to<bool, T>(Formula{}, y, x);
    });
  }
  template <auto& kKernel, typename Formula, typename Types>
  static void binary_predicate(Types types) {
    Device::template set<kKernel>(
        types, []<typename T>(Type<T>, const Tensor& a, const Tensor& b, Tensor& y) {
          Device::template map_to<bool, T>(Formula{}, y, a, b);
        });
  }

 private:
  template <typename Formula, typename To, typename A, typename B>
  [[gnu::noinline]] static void mixed(const Tensor& a, const Tensor& b, Tensor& y) {
    Device::map_types(Type<To>{}, TypeList<A, B>{}, Formula{}, y, a, b);
  }
};

}  // namespace tapegrad::backends
