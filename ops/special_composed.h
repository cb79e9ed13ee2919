// Special functions composed of other ops. They have no row in the catalog.
#pragma once

#include "core/tape/variable.h"

namespace tapegrad {

/// Returns -x log(x); 0 for x = 0, and -inf for x < 0.
Variable entr(const Variable& x, Where where = Where::current());
/// Return the distribution function of the standard normal distribution, and its inverse.
Variable ndtr(const Variable& x, Where where = Where::current());
Variable ndtri(const Variable& x, Where where = Where::current());
/// Returns log(ndtr(x)), also where ndtr(x) underflows.
Variable log_ndtr(const Variable& x, Where where = Where::current());
/// Returns the logarithm of the multivariate gamma function of dimension p.
Variable mvlgamma(const Variable& x, int64_t p, Where where = Where::current());

/// Number as mantissa * 2^exponent with 1/2 <= |mantissa| < 1. Both are 0 for 0; the mantissa of an
/// infinity or NaN is that value, and the exponent is 0.
struct Frexp {
  static constexpr int kParts = 2;
  Variable mantissa, exponent;  // exponent is int32
};
Frexp frexp(const Variable& x, Where where = Where::current());

}  // namespace tapegrad
