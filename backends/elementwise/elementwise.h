// Elementwise kernels, registered alike on every device: backends/elementwise/ says which formula
// serves which kernel, a Device how a formula is run.
//
// A Device has, all static,
//
//   set<kernels::exp>(types, function)           fills the kernel's slots
//   map<T>(formula, y, inputs...)                y = formula(inputs...), all of type T
//   map_to<To, From>(formula, y, inputs...)      from one type to another
//   map_types(Type<To>{}, TypeList<From...>{}, formula, y, inputs...)
//
// where inputs broadcast to y's shape and y may be one of them.
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
