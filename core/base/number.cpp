#include "core/base/number.h"

#include <cmath>
#include <limits>

#include "core/base/error.h"

namespace tapegrad {

bool Number::fits(DType dtype) const {
  if (is_float(dtype) || dtype == boolean) return true;
  return with_type(dtype, [&]<typename T>(TypeTag<T>) {
    if constexpr (!std::integral<T>)
      return true;
    else if (kind_ != f64)
      return int64_t(T(whole_)) == whole_;
    else  // false for NaN; the bounds are powers of two, or exact
      return std::trunc(real_) >= double(std::numeric_limits<T>::min()) &&
             std::trunc(real_) < 2 * double(T(1) << (std::numeric_limits<T>::digits - 1));
  });
}

void Number::fail_too_large(uint64_t value) {
  fail<ArgumentError>("number: ", value, " is larger than any int64");
}

void Number::fail_does_not_fit(bool is_signed, size_t bits) const {
  const char* type = is_signed ? "int" : "uint";
  if (kind_ == f64) fail<ArgumentError>("number: ", real_, " is not a value of ", type, bits);
  fail<ArgumentError>("number: ", whole_, " is not a value of ", type, bits);
}

void Number::require_range(bool is_signed, size_t bits) const {
  if (kind_ != f64) return;
  const double bound = std::ldexp(1.0, int(is_signed ? bits - 1 : bits));
  const double whole = std::trunc(real_);
  if (!(whole >= (is_signed ? -bound : 0.0) && whole < bound)) fail_does_not_fit(is_signed, bits);
}

}  // namespace tapegrad
