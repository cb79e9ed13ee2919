// Complex numbers as pairs of real numbers: the last dimension of a complex tensor has size 2 and
// holds the real and the imaginary part, as in torch.view_as_real and in the results of fft:: and
// stft. The functions below, and those of ops/complex_pairs.h, operate on complex numbers;
// functions of a Variable operate on the real numbers.
//
//   Variable spectrum = fft::rfft(signal);                  // [..., n / 2 + 1, 2]
//   Variable filtered = complex_mul(spectrum, filter);      // [..., n / 2 + 1, 2]
//   Variable magnitude = complex_abs(spectrum);             // [..., n / 2 + 1]
//
// All functions are differentiable to any order and throw ShapeError if a last dimension is not 2.
#pragma once

#include "core/tape/variable.h"
#include "ops/complex_pairs.h"

namespace tapegrad {

/// Returns re + i im [..., 2] for real tensors, which broadcast.
ComplexPairs complex(const Variable& re, const Variable& im, Where where = Where::current());
/// Returns magnitude (cos(phase) + i sin(phase)) [..., 2].
ComplexPairs polar(const Variable& magnitude, const Variable& phase,
                   Where where = Where::current());

/// Returns the real part of z, a view.
Variable real(const Variable& z, Where where = Where::current());
/// Returns the imaginary part of z, a view.
Variable imag(const Variable& z, Where where = Where::current());
/// Returns z, because complex tensors are stored as pairs of real numbers.
Variable view_as_real(const Variable& z, Where where = Where::current());
/// Returns x, which must be [..., 2].
ComplexPairs view_as_complex(const Variable& x, Where where = Where::current());

/// Returns the conjugate, re - i im.
ComplexPairs conj(const Variable& z, Where where = Where::current());
/// Returns sqrt(re^2 + im^2). The gradient at 0 is 0.
Variable complex_abs(const Variable& z, Where where = Where::current());
/// Returns atan2(im, re), in (-pi, pi].
Variable angle(const Variable& z, Where where = Where::current());
/// Returns the complex product; all dimensions but the last broadcast.
ComplexPairs complex_mul(const Variable& a, const Variable& b, Where where = Where::current());
/// Returns the complex quotient, a conj(b) / |b|^2; all dimensions but the last broadcast.
ComplexPairs complex_div(const Variable& a, const Variable& b, Where where = Where::current());

}  // namespace tapegrad
