// ComplexPairs: the result of ops that return complex numbers. It is a Variable whose last
// dimension has the real and the imaginary part (ops/complex.h).
//
//   auto spectrum = fft::rfft(signal);
//   Variable power = spectrum.abs().square();       // of the numbers, not of their parts
//   auto filtered = fft::irfft(spectrum * fft::rfft(filter));
#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/tape/variable.h"

namespace tapegrad {

struct ComplexPairs;
template <typename B>
concept Reals = std::is_arithmetic_v<B> ||
    (std::derived_from<B, Variable> && !std::same_as<B, ComplexPairs>);

/// Complex numbers as pairs of reals. The members and operators of this struct operate on the
/// complex numbers, as in PyTorch, and count their dimensions: mean(-1) is the mean along the last
/// dimension of numbers. Inherited members of Variable, ops that are functions, and a copy of type
/// Variable operate on the pairs: shape() ends with 2.
struct ComplexPairs : Variable {
  using Variable::operator=;
  ComplexPairs() = default;
  ComplexPairs(Variable pairs) : Variable(std::move(pairs)) {}
  ComplexPairs(const ComplexPairs&) = default;
  ComplexPairs(ComplexPairs&&) = default;
  ComplexPairs& operator=(const ComplexPairs&) & = default;
  ComplexPairs& operator=(ComplexPairs&&) & = default;
  void operator=(const ComplexPairs& z) && { static_cast<Variable&&>(*this) = z.pairs(); }

  Variable abs(Where where = Where::current()) const;  // [..., 2] -> [...]
  Variable angle(Where where = Where::current()) const;
  Variable real(Where where = Where::current()) const;
  Variable imag(Where where = Where::current()) const;
  ComplexPairs conj(Where where = Where::current()) const;
  ComplexPairs operator-() const;
  ComplexPairs square(Where where = Where::current()) const;
  ComplexPairs sum(Where where = Where::current()) const;
  ComplexPairs sum(const Dims& dims, bool keepdim = false, Where where = Where::current()) const;
  ComplexPairs mean(Where where = Where::current()) const;
  ComplexPairs mean(const Dims& dims, bool keepdim = false, Where where = Where::current()) const;

  // Views, which share memory, and copies:
  using Variable::operator[];
  ComplexPairs operator[](detail::IndexHere i) const { return select(0, i.index, i.where); }
  ComplexPairs operator[](const Slice& slice) const;
  ComplexPairs index(std::vector<Subscript> subscripts, Where where = Where::current()) const;
  ComplexPairs select(int dim, int64_t index, Where where = Where::current()) const;
  ComplexPairs slice(int dim, int64_t start = 0, int64_t end = INT64_MAX, int64_t step = 1,
                     Where where = Where::current()) const;
  ComplexPairs narrow(int dim, int64_t start, int64_t length, Where where = Where::current()) const;
  ComplexPairs unsqueeze(int dim, Where where = Where::current()) const;
  ComplexPairs transpose(int dim0, int dim1, Where where = Where::current()) const;
  ComplexPairs permute(const Dims& dims, Where where = Where::current()) const;
  ComplexPairs reshape(const Shape& shape, Where where = Where::current()) const;
  ComplexPairs flatten(int start_dim = 0, int end_dim = -1, Where where = Where::current()) const;
  ComplexPairs contiguous(Where where = Where::current()) const;
  ComplexPairs clone(Where where = Where::current()) const;
  ComplexPairs detach() const;
  /// Returns the pairs as a Variable, for its members and for functions.
  Variable view_as_real() const { return *this; }

  // In-place operators:
  template <typename B>
  ComplexPairs& add_(const B& b) {
    return write(*this + b);
  }
  template <typename B>
  ComplexPairs& sub_(const B& b) {
    return write(*this - b);
  }
  template <typename B>
  ComplexPairs& mul_(const B& b) {
    return write(*this * b);
  }
  template <typename B>
  ComplexPairs& div_(const B& b) {
    return write(*this / b);
  }

  // Operators of two ComplexPairs. Templates, so that they do not accept a Variable in place of a
  // ComplexPairs.
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
  // Operators with a real operand: a number, or a Variable that broadcasts with the complex
  // numbers. A Variable of another shape is combined with the pairs.
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
  int dim_of(std::string_view op, int64_t dim, int more = 0) const;
  Dims dims_of(std::string_view op, const Dims& dims) const;
  ComplexPairs& write(const ComplexPairs& values);
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
