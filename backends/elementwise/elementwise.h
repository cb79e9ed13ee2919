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
};

}  // namespace tapegrad::backends
