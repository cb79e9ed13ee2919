#include "ops/internal/operands.h"

namespace tapegrad::detail {
namespace {

DType common_dtype(const Variable& a, const Variable& b) {
  if (a.dtype() == b.dtype()) return a.dtype();
  if ((a.rank() == 0) == (b.rank() == 0)) return promote(a.dtype(), b.dtype());
  const DType high = a.rank() > 0 ? a.dtype() : b.dtype();
  const DType low = a.rank() > 0 ? b.dtype() : a.dtype();
  const bool low_kind_wins = is_float(low) > is_float(high) || high == boolean;
  return low_kind_wins ? promote(high, low) : high;
}

}  // namespace

DType common_dtype(std::string_view op, const Operand& a, const Operand& b) {
  if (a.variable && b.variable) return common_dtype(*a.variable, *b.variable);
  if (a.variable) return promote(a.variable->dtype(), b.number);
  if (b.variable) return promote(b.variable->dtype(), a.number);
  fail<ArgumentError>(op, ": one operand must be a variable");
}

void check_fits(std::string_view op, const Number& number, DType dtype) {
  if (!number.fits(dtype))
    fail<ArgumentError>(op, ": ", number, " is not a value of ", name(dtype));
}

Variable as_variable(std::string_view op, const Operand& x, DType dtype, Device device) {
  if (x.variable) return x.variable->to(dtype, x.where);
  check_fits(op, x.number, dtype);
  return Variable(Tensor::full({}, x.number, dtype, device));
}

Variable as_factor(std::string_view op, const Operand& x, DType dtype, Device device) {
  const DType wide = compute_dtype(dtype);
  if (wide == dtype) return as_variable(op, x, dtype, device);
  const bool is_wide = !x.variable || (x.variable->rank() == 0 && is_float(x.variable->dtype()) &&
                                       x.variable->dtype() != dtype);
  return as_variable(op, x, is_wide ? wide : dtype, device);
}

namespace {

/// For operands of different dtypes: returns whether the result has the dtype of b. Throws
/// DTypeError unless one operand is a float32 number that is combined with sixteen-bit floats.
[[gnu::cold]] bool has_type_of_b(std::string_view op, const Tensor& a, const Tensor& b) {
  if (!is_wide_number(a, b) && !is_wide_number(b, a)) check_same_dtype(op, a, b);
  return is_wide_number(a, b);
}

}  // namespace

// A single return statement lets the result be constructed in place.
Tensor compute(const kernels::Binary& kernel, const Tensor& a, const Tensor& b) {
  check_same_device(kernel.name(), a, b);
  const bool is_like_b = a.dtype() != b.dtype() && has_type_of_b(kernel.name(), a, b);
  const bool has_shape_of_a = b.rank() == 0 || a.shape() == b.shape();
  Tensor y = is_like_b        ? b.empty_like()
             : has_shape_of_a ? a.empty_like()
                              : a.empty_like(broadcast(kernel.name(), a.shape(), b.shape()));
  kernel(a, b, y);
  return y;
}

void compute_in_place(const kernels::Binary& kernel, const Tensor& b, Tensor& a) {
  check_same_device(kernel.name(), a, b);
  if (!is_wide_number(b, a)) check_same_dtype(kernel.name(), a, b);
  if (a.shape() != b.shape() && broadcast(kernel.name(), a.shape(), b.shape()) != a.shape())
    fail<ShapeError>(kernel.name(), ": ", b.shape(), " does not fit in place into ", a.shape());
  const bool same_layout = a.strides() == b.strides() && a.layout().offset == b.layout().offset &&
                           a.shape() == b.shape();
  // Otherwise elements of a would be overwritten before b's are read.
  if (a.shares_storage(b) && !same_layout) return kernel(a, b.clone(), a);
  kernel(a, b, a);
}

}  // namespace tapegrad::detail
