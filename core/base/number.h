// Number: a numeric argument that is converted to the dtype of the tensor with which it is
// combined. 2 stays exact in an int64 tensor; 0.5 is rounded once in a float32 tensor.
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
  Number(T value) : whole_(int64_t(value)), kind_(std::same_as<T, bool> ? boolean : i64) {
    if constexpr (std::unsigned_integral<T> && sizeof(T) == sizeof(int64_t))
      if (value > uint64_t(INT64_MAX)) [[unlikely]]
        fail_too_large(value);
  }

  /// Returns the kind of the number: f64, i64 or bool.
  DType kind() const { return kind_; }

  /// Converts to T. Fractions saturate in an integer type. Throws ArgumentError for a whole number
  /// that T cannot hold.
  template <typename T>
  T to() const {
    if (kind_ == f64) return convert<T>(real_);
    if constexpr (std::integral<T> && !std::same_as<T, bool>)
      if (int64_t(T(whole_)) != whole_ || (std::unsigned_integral<T> && whole_ < 0)) [[unlikely]]
        fail_does_not_fit(std::signed_integral<T>, 8 * sizeof(T));
    return convert<T>(whole_);
  }
  /// Converts to T; an integer T cuts the fraction off. Throws ArgumentError for a number that an
  /// integer T cannot hold, and for NaN.
  template <typename T>
  T checked() const {
    if constexpr (std::integral<T> && !std::same_as<T, bool>)
      require_range(std::signed_integral<T>, 8 * sizeof(T));
    return to<T>();
  }
  /// Returns the number as T, or the closest number that T can hold.
  template <typename T>
  T saturated() const {
    return fits(kDTypeOf<T>) ? to<T>() : convert<T>(real());
  }
  /// Returns whether a tensor of the dtype can hold the number without its fraction. Floats and
  /// bool hold any number.
  bool fits(DType dtype) const;
  double real() const { return to<double>(); }

  friend std::ostream& operator<<(std::ostream& out, const Number& number);

 private:
  [[noreturn, gnu::cold]] static void fail_too_large(uint64_t value);
  [[noreturn, gnu::cold]] void fail_does_not_fit(bool is_signed, size_t bits) const;
  /// Throws ArgumentError for a fraction that such an integer cannot hold after truncation.
  void require_range(bool is_signed, size_t bits) const;

  union {
    double real_;
    int64_t whole_;
  };
  DType kind_;
};

/// Returns the dtype of a tensor combined with a number, as in PyTorch: the dtype of the tensor,
/// unless the number is of a higher kind (a float with an integer tensor gives the default float
/// dtype).
inline DType promote(DType dtype, const Number& number) {
  if (is_float(dtype)) return dtype;
  if (number.kind() == f64) return default_dtype();
  return dtype == boolean && number.kind() == i64 ? i64 : dtype;
}

}  // namespace tapegrad
