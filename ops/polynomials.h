// Orthogonal polynomials under the names of torch.special, and the spherical Bessel function of
// order 0. They are composed of other ops, have gradients of any order in x, and no row in the
// catalog.
#pragma once

#include "ops/binary.h"

namespace tapegrad::special {

// The degree n is a number, or a tensor that broadcasts with x; fractions are cut off. A polynomial
// of negative degree is 0. Throws ArgumentError for a degree above 512.

/// Chebyshev polynomials of the first to the fourth kind.
Variable chebyshev_polynomial_t(const Operand& x, const Operand& n);
Variable chebyshev_polynomial_u(const Operand& x, const Operand& n);
Variable chebyshev_polynomial_v(const Operand& x, const Operand& n);
Variable chebyshev_polynomial_w(const Operand& x, const Operand& n);
/// Chebyshev polynomials of 2 x - 1.
Variable shifted_chebyshev_polynomial_t(const Operand& x, const Operand& n);
Variable shifted_chebyshev_polynomial_u(const Operand& x, const Operand& n);
Variable shifted_chebyshev_polynomial_v(const Operand& x, const Operand& n);
Variable shifted_chebyshev_polynomial_w(const Operand& x, const Operand& n);
/// Hermite polynomials of physicists and of probabilists.
Variable hermite_polynomial_h(const Operand& x, const Operand& n);
Variable hermite_polynomial_he(const Operand& x, const Operand& n);
Variable laguerre_polynomial_l(const Operand& x, const Operand& n);
Variable legendre_polynomial_p(const Operand& x, const Operand& n);

/// Returns sin(x) / x, and 1 at 0.
Variable spherical_bessel_j0(const Variable& x, Where where = Where::current());

}  // namespace tapegrad::special
