// Base classes and helpers of elementwise ops: conversion of numbers to variables, dtype promotion,
// and ops that consist of one kernel.
#pragma once

#include <algorithm>

#include "core/tape/internal/autocast_operand.h"
#include "core/tape/op.h"
#include "ops/binary.h"
#include "ops/internal/unbroadcast.h"
#include "ops/unary.h"

namespace tapegrad::detail {

/// Returns the promoted dtype of both operands, as in PyTorch: a variable of rank 0 counts only by
/// the kind of its dtype. Throws ArgumentError unless at least one operand is a variable.
DType common_dtype(std::string_view op, const Operand& a, const Operand& b);

/// Throws ArgumentError unless the dtype can represent the number.
void check_fits(std::string_view op, const Number& number, DType dtype);

/// Converts an operand to a variable of the given dtype.
auto as_variable(std::string_view op, const Operand& x, DType dtype, Device device) -> Variable;

/// Converts an operand to a variable for arithmetic whose result has the given dtype. A number, or
/// a wider variable of rank 0, that is combined with sixteen-bit floats becomes float32, the type
/// of computation, because 1e-8 is 0 in float16 and 70000 is infinite. Any other operand is
/// converted to the dtype.
auto as_factor(std::string_view op, const Operand& x, DType dtype, Device device) -> Variable;

/// Returns the type of computation for a dtype: float32 for sixteen-bit floats, else the dtype.
inline DType compute_dtype(DType dtype) { return dtype == f16 || dtype == bf16 ? f32 : dtype; }

/// Returns float64 for float64, else float32.
inline DType wide_dtype(DType dtype) { return dtype == f64 ? f64 : f32; }

/// Returns whether x is a float32 number that is combined with sixteen-bit floats.
inline bool is_wide_number(const Tensor& x, const Tensor& other) {
  return x.rank() == 0 && x.dtype() == f32 && other.dtype() != compute_dtype(other.dtype());
}

/// Throws DTypeError unless x is a float tensor.
void check_floats(std::string_view op, const Variable& x);

/// Returns whether x has integers that a kernel for float64 may round: those of 32 and 64 bits.
inline bool is_wide_integer(DType dtype) { return dtype == i32 || dtype == i64; }
/// Returns the largest magnitude of the elements of x, or 0 if there are none.
double largest_magnitude(const Variable& x);
/// Throws ArgumentError if a kernel for float64 rounds integers up to `bound`.
void require_exact(std::string_view op, double bound, DType dtype);

/// Throws ArgumentError if nothing else refers to the target's memory. The target is then a copy,
/// such as x[mask], and the write would have no effect. For writes to an rvalue, as in `x[0] = y`.
void require_seen(std::string_view op, const Variable& target);

inline Device device_of(const Operand& a, const Operand& b) {
  return (a.variable ? a.variable : b.variable)->device();
}

/// Casts integers to the default float dtype.
inline auto as_float(Variable x, Where where) -> Variable {
  return is_float(x.value(where).dtype()) ? std::move(x) : x.to(default_dtype(), where);
}

/// Two operands as Variables of their common dtype.
struct Pair {
  Variable a, b;

  Pair(std::string_view op, const Operand& x, const Operand& y)
      : Pair(op, x, y, common_dtype(op, x, y)) {}
  Pair(std::string_view op, const Operand& x, const Operand& y, DType dtype)
      : a(as_variable(op, x, dtype, device_of(x, y))),
        b(as_variable(op, y, dtype, device_of(x, y))) {}
};

/// Returns the common dtype, or the default float dtype for integers.
inline DType float_dtype(std::string_view op, const Operand& a, const Operand& b) {
  const DType dtype = common_dtype(op, a, b);
  return is_float(dtype) ? dtype : default_dtype();
}

/// Base of ops with one operand and one kernel.
template <const kernels::Unary& kernel>
struct UnaryOp {
  static constexpr bool kChecksFirst = true;
  void write(const Tensor& x, Tensor& y) const { kernel(x, y); }
};

/// Runs the kernel and returns its result as a new tensor. One operand may be a float32 number
/// (is_wide_number()).
Tensor compute(const kernels::Binary& kernel, const Tensor& a, const Tensor& b);
/// Runs the kernel and writes its result over y, which is a or b.
void compute_in_place(const kernels::Binary& kernel, const Tensor& a, const Tensor& b, Tensor& y);
/// Returns whether the result of an elementwise op of x and `other` has x's shape and dtype. With
/// any_dtype, the dtype of `other` does not matter.
bool fits_result(const Tensor& x, const Tensor& other, bool any_dtype = false);

/// Base of arithmetic ops with two operands and one kernel.
template <const kernels::Binary& kernel>
struct BinaryOp {
  static constexpr bool kChecksFirst = true;
  static constexpr bool kTakesWideNumber = true;
  Unbroadcast<2> shapes;
  DType dtypes[2];  // of the operands

  BinaryOp() {}  // user-provided, because `Mul{}` would otherwise clear all of a Mul first

  Tensor forward(const Tensor& a, const Tensor& b) {
    dtypes[0] = a.dtype(), dtypes[1] = b.dtype();
    if (a.shape() != b.shape())
      shapes.remember(broadcast(kernel.name(), a.shape(), b.shape()), a, b);
    return compute(kernel, a, b);
  }
  void write(const Tensor& a, const Tensor& b, Tensor& y) {
    dtypes[0] = a.dtype(), dtypes[1] = b.dtype();
    if (a.shape() != b.shape()) shapes.remember(y.shape(), a, b);
    compute_in_place(kernel, a, b, y);
  }
  static bool fits(const Tensor& x, const Tensor& other) { return fits_result(x, other); }
  /// Reduces the gradient of all elements to the shape and dtype of an operand.
  Variable reduce(size_t input, const Variable& dx) const {
    if (dx.dtype() != dtypes[input]) [[unlikely]]
      return shapes(input, dx.to(dtypes[input]));
    return shapes(input, dx);
  }
  Tensor reduce(size_t input, Tensor&& dx) const {
    if (dx.dtype() != dtypes[input]) [[unlikely]]
      return shapes(input, dx.to(dtypes[input]));
    return shapes(input, std::move(dx));
  }
  /// Computes the gradient of one operand by kernel(dy, saved, others..., gradient). Returns an
  /// empty Tensor if the gradient is not needed.
  template <typename Kernel, typename... Others>
  Tensor gradient_by(const Kernel& gradient, size_t input, const Tensor& dy, Needs needs,
                     const SavedValue& a, const SavedValue& b, Others... others) const {
    if (!needs[input]) return {};
    const bool is_mixed = dtypes[0] != dtypes[1];  // a float32 number with sixteen-bit floats
    const auto wide = [&](const Tensor& x) { return is_mixed ? x.to(f32) : x; };
    const Tensor from = wide(dy);
    Tensor dx = from.empty_like();
    gradient(from, wide(a.value()), wide(b.value()), others..., dx);
    return reduce(input, std::move(dx));
  }
  /// reduce(input, a * b)
  Tensor reduce_product(size_t input, const Tensor& a, const Tensor& b) const {
    if (!shapes.is_broadcast(input) && a.dtype() == dtypes[input]) [[likely]]
      return compute(kernels::mul, a, b);  // constructed in place
    if (a.dtype() == dtypes[input] && is_float(a.dtype()))
      return sum_of_products(a, b, shapes.shape_of(input));
    return reduce(input, compute(kernels::mul, a, b));
  }
};

/// Returns the gradient of maximum(a, b) with respect to a: dy where a > b, dy / 2 where a = b.
auto larger_gradient(const Variable& dy, const Variable& a, const Variable& b) -> Variable;

/// Computes a gradient by a kernel. Overwrites dy if nothing else refers to its memory.
template <typename Kernel, typename... Attributes>
Tensor by_kernel(const Kernel& kernel, const Tensor& dy, const SavedValue& saved,
                 Attributes... attributes) {
  Tensor dx = result_over(dy);
  kernel(dy, saved.value(), attributes..., dx);
  return dx;
}

/// Applies an op whose result is a float.
template <typename Op>
auto of_float(Variable x, Where where) -> Variable {
  return apply_over(Op{}, where, {as_float(std::move(x), where)});
}
/// of_float() with sixteen-bit operands cast to float32 in an Autocast scope.
template <typename Op>
auto of_wide_float(Variable x, Where where) -> Variable {
  if (is_autocast_enabled()) [[unlikely]]
    return of_float<Op>(wide(x, where), where);
  return of_float<Op>(std::move(x), where);
}

/// A string as a template argument.
template <size_t N>
struct Literal {
  char text[N];
  constexpr Literal(const char (&from)[N]) { std::copy_n(from, N, text); }
};

/// A comparison, or a logical op of two bools.
template <const kernels::Binary& kernel, Literal name>
struct Predicate {
  static constexpr std::string_view kName = name.text;
  static constexpr bool kDifferentiable = false;

  Tensor forward(const Tensor& a, const Tensor& b) {
    check_same_device(kName, a, b);
    check_same_dtype(kName, a, b);
    Tensor y = Tensor::empty(broadcast(kName, a.shape(), b.shape()), boolean, a.device());
    kernel(a, b, y);
    return y;
  }
};

template <typename Op>
constexpr bool takes_wide_number() {
  if constexpr (requires { Op::kTakesWideNumber; })
    return Op::kTakesWideNumber;
  else
    return false;
}

inline OpInput input_of(const Operand& x) { return {*x.variable, x.is_last_use}; }
/// Returns the variable; moves it if the caller no longer needs it.
inline auto take(const Operand& x) -> Variable {
  if (x.is_last_use) return std::move(const_cast<Variable&>(*x.variable));
  return *x.variable;
}

/// An operand, converted by as_variable() or as_factor() if its dtype is another one. A converted
/// operand may be overwritten.
class Converted {
 public:
  Converted(decltype(as_variable) convert, std::string_view op, const Operand& x, DType dtype,
            Device device)
      : is_made_(!x.variable || x.variable->dtype() != dtype),
        made_(is_made_ ? convert(op, x, dtype, device) : Variable()),
        given_(is_made_ ? OpInput(std::move(made_)) : input_of(x)) {}
  Converted(const Converted&) = delete;
  Converted& operator=(const Converted&) = delete;
  operator OpInput() const { return given_; }

 private:
  bool is_made_;
  Variable made_;
  OpInput given_;
};

/// Applies the op; the result overwrites an input if the op has write().
template <typename Op>
auto run_inputs(Where where, const OpInput& a, const OpInput& b) {
  if constexpr (requires { Op::fits(a.variable->value(), b.variable->value()); })
    return apply_over(Op{}, where, {a, b});
  else
    return apply(Op{}, where, *a.variable, *b.variable);
}

/// Applies the op to the operands, converted for a result of the given dtype.
template <typename Op>
auto run_as(const Operand& a, const Operand& b, DType dtype) {
  const Device device = device_of(a, b);
  constexpr auto convert = takes_wide_number<Op>() ? as_factor : as_variable;
  const Converted x(convert, Op::kName, a, dtype, device);
  return run_inputs<Op>(a.where, x, Converted(convert, Op::kName, b, dtype, device));
}

template <typename Op>
[[gnu::noinline]] auto run_mixed(const Operand& a, const Operand& b) {
  return run_as<Op>(a, b, common_dtype(Op::kName, a, b));
}

template <typename Op>
auto run(const Operand& a, const Operand& b) {
  if (a.variable && b.variable &&
      a.variable->value(a.where).dtype() == b.variable->value(b.where).dtype()) [[likely]]
    return run_inputs<Op>(a.where, input_of(a), input_of(b));
  return run_mixed<Op>(a, b);
}

/// run() for ops whose result is a float. Integers are cast to the default float dtype.
template <typename Op>
auto run_float(const Operand& a, const Operand& b) {
  const DType dtype = common_dtype(Op::kName, a, b);
  return is_float(dtype) ? run<Op>(a, b) : run_as<Op>(a, b, default_dtype());
}

}  // namespace tapegrad::detail
