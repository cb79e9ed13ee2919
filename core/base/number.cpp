#include "core/base/number.h"

#include <cmath>
#include <limits>

#include "core/base/error.h"

namespace tapegrad {

bool Number::fits(DType dtype) const {
  if (is_float(dtype) || dtype == boolean) return true;
  return with_type(dtype, [&]<typename T>(Type<T>) {
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

void Number::fail_does_not_fit(DType dtype) const {
  // Other C++ types than those of the elements have no dtype.
  if (size_t(dtype) >= kDTypeCount)
    fail<ArgumentError>("number: ", whole_, " is not a value of the wanted type");
  fail<ArgumentError>("number: ", whole_, " is not a value of ", name(dtype));
}

}  // namespace tapegrad
