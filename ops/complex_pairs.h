// The result of the ops that return complex numbers: a Variable whose last dimension has the real
// and the imaginary part (ops/complex.h).
//
//   auto spectrum = fft::rfft(signal);
//   Variable power = spectrum.abs().square();       // of the numbers, not of their parts
//   auto filtered = fft::irfft(spectrum * fft::rfft(filter));
#pragma once

#include "core/tape/variable.h"

namespace tapegrad {

/// Complex numbers as pairs of reals. Its abs(), angle(), real() and imag() are those of the
/// numbers, as in PyTorch, and the product of two is the complex product. All other ops, and a copy
/// of type Variable, see the pairs.
struct ComplexPairs : Variable {
  using Variable::operator=;
  ComplexPairs() = default;
  ComplexPairs(Variable pairs) : Variable(std::move(pairs)) {}

  Variable abs(Where where = Where::current()) const;  // [..., 2] -> [...]
  Variable angle(Where where = Where::current()) const;
  Variable real(Where where = Where::current()) const;
  Variable imag(Where where = Where::current()) const;
  ComplexPairs conj(Where where = Where::current()) const;
  // Of two results alone: a template takes no Variable in place of one.
  template <std::same_as<ComplexPairs> A, std::same_as<ComplexPairs> B>
  friend ComplexPairs operator*(const A& a, const B& b) {
    return a.times(b);
  }

 private:
  ComplexPairs times(const ComplexPairs& other) const;
};
Variable abs(const ComplexPairs& z, Where where = Where::current());

}  // namespace tapegrad
