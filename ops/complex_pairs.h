// ComplexPairs: the result of ops that return complex numbers. It is a Variable whose last
// dimension has the real and the imaginary part (ops/complex.h).
//
//   auto spectrum = fft::rfft(signal);
//   Variable power = spectrum.abs().square();       // of the numbers, not of their parts
//   auto filtered = fft::irfft(spectrum * fft::rfft(filter));
#pragma once

#include <concepts>
#include <initializer_list>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/tape/variable.h"

namespace tapegrad {

struct ComplexPairs;
template <typename B>
concept Reals = std::is_arithmetic_v<B> ||
    (std::derived_from<B, Variable> && !std::same_as<B, ComplexPairs>);

/// A function that complex numbers do not have.
#define TAPEGRAD_OF_REALS(name)                                         \
  template <std::same_as<ComplexPairs> Z, typename... More>             \
  auto name(const Z&, const More&...) {                                 \
    static_assert(detail::kNever<Z>, #name                              \
                  " of complex numbers: type z.abs(), or "              \
                  "z.view_as_real() for the real and imaginary parts"); \
  }

namespace detail {
ComplexPairs cat_complex(std::initializer_list<ComplexPairs> parts, int dim, Where where);
ComplexPairs stack_complex(std::initializer_list<ComplexPairs> parts, int dim, Where where);
}  // namespace detail

/// Complex numbers as pairs of reals. The members and operators of this struct operate on the
/// complex numbers, as in PyTorch, and count their dimensions: mean(-1) is the mean along the last
/// dimension of numbers. Inherited members of Variable, functions other than those below, and a
/// copy of type Variable operate on the pairs: shape() ends with 2.
struct ComplexPairs : Variable {
  using Variable::operator=;
  ComplexPairs() = default;
  ComplexPairs(Variable pairs);
  ComplexPairs(const ComplexPairs&) = default;
  ComplexPairs(ComplexPairs&&) = default;
  ComplexPairs& operator=(const ComplexPairs&) & = default;
  ComplexPairs& operator=(ComplexPairs&&) & = default;
  void operator=(const ComplexPairs& z) &&;

  Variable abs(Where where = Where::current()) const;  // [..., 2] -> [...]
  Variable angle(Where where = Where::current()) const;
  Variable real(Where where = Where::current()) const;
  Variable imag(Where where = Where::current()) const;
  ComplexPairs conj(Where where = Where::current()) const;
  ComplexPairs operator-() const;
  ComplexPairs square(Where where = Where::current()) const;
  ComplexPairs exp(Where where = Where::current()) const;
  ComplexPairs sum(Where where = Where::current()) const;
  ComplexPairs sum(const Dims& dims, bool keepdim = false, Where where = Where::current()) const;
  ComplexPairs mean(Where where = Where::current()) const;
  ComplexPairs mean(const Dims& dims, bool keepdim = false, Where where = Where::current()) const;

  // Views, which share memory, and copies:
  using Variable::operator[];
  ComplexPairs operator[](detail::IndexHere i) const;
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

  // Members of Variable that would combine real and imaginary parts as if they were numbers.
  void cos(const auto&...) const = delete;
  void log(const auto&...) const = delete;
  void matmul(const auto&...) const = delete;
  void max(const auto&...) const = delete;
  void min(const auto&...) const = delete;
  void norm(const auto&...) const = delete;
  void pow(const auto&...) const = delete;
  void prod(const auto&...) const = delete;
  void relu(const auto&...) const = delete;
  void rsqrt(const auto&...) const = delete;
  void sigmoid(const auto&...) const = delete;
  void sin(const auto&...) const = delete;
  void softmax(const auto&...) const = delete;
  void sqrt(const auto&...) const = delete;
  void std(const auto&...) const = delete;
  void tanh(const auto&...) const = delete;
  void var(const auto&...) const = delete;

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
  ComplexPairs minus(double x) const;
  ComplexPairs times(double x) const;
  ComplexPairs over(double x) const;
  ComplexPairs under(double x) const;
  ComplexPairs plus(const Variable& x) const;
  ComplexPairs minus(const Variable& x) const;
  ComplexPairs times(const Variable& x) const;
  ComplexPairs over(const Variable& x) const;
  ComplexPairs under(const Variable& x) const;
};

// Functions of complex numbers, as templates, because they take no Variable.
template <std::same_as<ComplexPairs> Z>
Variable abs(const Z& z, Where where = Where::current()) {
  return z.abs(where);
}
template <std::same_as<ComplexPairs> Z>
ComplexPairs sum(const Z& z, const Dims& dims = {}, bool keepdim = false,
                 Where where = Where::current()) {
  return z.sum(dims, keepdim, where);
}
template <std::same_as<ComplexPairs> Z>
ComplexPairs mean(const Z& z, const Dims& dims = {}, bool keepdim = false,
                  Where where = Where::current()) {
  return z.mean(dims, keepdim, where);
}
template <std::same_as<ComplexPairs> Z>
ComplexPairs cat(std::initializer_list<Z> parts, int dim = 0, Where where = Where::current()) {
  return detail::cat_complex(parts, dim, where);
}
template <std::same_as<ComplexPairs> Z>
ComplexPairs stack(std::initializer_list<Z> parts, int dim = 0, Where where = Where::current()) {
  return detail::stack_complex(parts, dim, where);
}
// Functions that would combine real and imaginary parts as if they were numbers. Functions of one
// operand, such as exp(), are not overloaded, so that they can be passed as arguments.
TAPEGRAD_OF_REALS(l1_loss)
TAPEGRAD_OF_REALS(max)
TAPEGRAD_OF_REALS(min)
TAPEGRAD_OF_REALS(mse_loss)
TAPEGRAD_OF_REALS(norm)
TAPEGRAD_OF_REALS(pow)
TAPEGRAD_OF_REALS(prod)
TAPEGRAD_OF_REALS(std)
TAPEGRAD_OF_REALS(var)
#undef TAPEGRAD_OF_REALS

}  // namespace tapegrad
