// The result of the ops that return complex numbers: a Variable whose last dimension has the real
// and the imaginary part (ops/complex.h).
//
//   auto spectrum = fft::rfft(signal);
//   Variable power = spectrum.abs().square();       // of the numbers, not of their parts
//   auto filtered = fft::irfft(spectrum * fft::rfft(filter));
#pragma once

#include <concepts>
#include <type_traits>

#include "core/tape/variable.h"

namespace tapegrad {

struct ComplexPairs;
template <typename B>
concept Reals = std::is_arithmetic_v<B> ||
    (std::derived_from<B, Variable> && !std::same_as<B, ComplexPairs>);

/// Complex numbers as pairs of reals. Its abs(), angle(), real() and imag() are those of the
/// numbers, as in PyTorch, and so are the operators of the struct. All other ops, and a copy of
/// type Variable, see the pairs.
struct ComplexPairs : Variable {
  using Variable::operator=;
  ComplexPairs() = default;
  ComplexPairs(Variable pairs) : Variable(std::move(pairs)) {}

  Variable abs(Where where = Where::current()) const;  // [..., 2] -> [...]
  Variable angle(Where where = Where::current()) const;
  Variable real(Where where = Where::current()) const;
  Variable imag(Where where = Where::current()) const;
  ComplexPairs conj(Where where = Where::current()) const;
  ComplexPairs operator-() const;

  // Templates, because they take no Variable in place of a ComplexPairs.
  template <std::same_as<ComplexPairs> A, std::same_as<ComplexPairs> B>
  friend ComplexPairs operator+(const A& a, const B& b) {
    return a.plus(b);
  }
  template <std::same_as<ComplexPairs> A, std::same_as<ComplexPairs> B>
  friend ComplexPairs operator-(const A& a, const B& b) {
    return a.minus(b);
  }
  template <std::same_as<ComplexPairs> A, std::same_as<ComplexPairs> B>
  friend ComplexPairs operator*(const A& a, const B& b) {
    return a.times(b);
  }
  template <std::same_as<ComplexPairs> A, std::same_as<ComplexPairs> B>
  friend ComplexPairs operator/(const A& a, const B& b) {
    return a.over(b);
  }
  // With reals: a number, or a Variable that broadcasts with the numbers. A Variable of another
  // shape is combined with the pairs.
  template <std::same_as<ComplexPairs> A, Reals B>
  friend ComplexPairs operator+(const A& a, const B& b) {
    return a.plus(b);
  }
  template <Reals B, std::same_as<ComplexPairs> A>
  friend ComplexPairs operator+(const B& b, const A& a) {
    return a.plus(b);
  }
  template <std::same_as<ComplexPairs> A, Reals B>
  friend ComplexPairs operator-(const A& a, const B& b) {
    return a.minus(b);
  }
  template <Reals B, std::same_as<ComplexPairs> A>
  friend ComplexPairs operator-(const B& b, const A& a) {
    return (-a).plus(b);
  }
  template <std::same_as<ComplexPairs> A, Reals B>
  friend ComplexPairs operator*(const A& a, const B& b) {
    return a.times(b);
  }
  template <Reals B, std::same_as<ComplexPairs> A>
  friend ComplexPairs operator*(const B& b, const A& a) {
    return a.times(b);
  }
  template <std::same_as<ComplexPairs> A, Reals B>
  friend ComplexPairs operator/(const A& a, const B& b) {
    return a.over(b);
  }
  template <Reals B, std::same_as<ComplexPairs> A>
  friend ComplexPairs operator/(const B& b, const A& a) {
    return a.under(b);
  }
  /// Set this handle to the result.
  template <typename B>
  ComplexPairs& operator+=(const B& b) {
    return *this = *this + b;
  }
  template <typename B>
  ComplexPairs& operator-=(const B& b) {
    return *this = *this - b;
  }
  template <typename B>
  ComplexPairs& operator*=(const B& b) {
    return *this = *this * b;
  }
  template <typename B>
  ComplexPairs& operator/=(const B& b) {
    return *this = *this / b;
  }

 private:
  const Variable& pairs() const { return *this; }
  ComplexPairs plus(const ComplexPairs& other) const;
  ComplexPairs minus(const ComplexPairs& other) const;
  ComplexPairs times(const ComplexPairs& other) const;
  ComplexPairs over(const ComplexPairs& other) const;
  ComplexPairs plus(double x) const;
  ComplexPairs minus(double x) const { return plus(-x); }
  ComplexPairs times(double x) const;
  ComplexPairs over(double x) const;
  ComplexPairs under(double x) const;
  ComplexPairs plus(const Variable& x) const;
  ComplexPairs minus(const Variable& x) const;
  ComplexPairs times(const Variable& x) const;
  ComplexPairs over(const Variable& x) const;
  ComplexPairs under(const Variable& x) const;
};
Variable abs(const ComplexPairs& z, Where where = Where::current());

}  // namespace tapegrad
