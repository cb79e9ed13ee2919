// A number argument whose type is resolved by the tensor it is used with: 2 stays exact in an int64
// tensor, 0.5 is rounded once in a float32 tensor.
#pragma once

#include <concepts>
#include <cstdint>
#include <iosfwd>

#include "core/base/dtype.h"

namespace tapegrad {

class Number {
 public:
  template <std::floating_point T>
  Number(T value) : real_(double(value)), kind_(f64) {}
  template <std::integral T>
  Number(T value) : whole_(int64_t(value)), kind_(std::same_as<T, bool> ? boolean : i64) {}

  /// The kind of the number: f64, i64 or bool.
  DType kind() const { return kind_; }

  template <typename T>
  T to() const {
    return kind_ == f64 ? convert<T>(real_) : convert<T>(whole_);
  }
  double real() const { return to<double>(); }

  friend std::ostream& operator<<(std::ostream& out, const Number& number);

 private:
  union {
    double real_;
    int64_t whole_;
  };
  DType kind_;
};

/// The dtype of a tensor combined with a number, as in PyTorch: the dtype of the tensor, unless the
/// number is of a higher kind (a float with an integer tensor gives the default float dtype).
inline DType promote(DType dtype, const Number& number) {
  if (is_float(dtype)) return dtype;
  if (number.kind() == f64) return default_dtype();
  return dtype == boolean && number.kind() == i64 ? i64 : dtype;
}

}  // namespace tapegrad
