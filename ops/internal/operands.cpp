#include "ops/internal/operands.h"

#include "core/base/internal/host_values.h"
#include "core/dispatch/internal/hold_number.h"
#include "ops/extremes.h"
#include "ops/unary.h"

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
  if (a.variable) a.variable->value(a.where);  // an empty variable is an error
  if (b.variable) b.variable->value(b.where);
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
  return Variable(number_operand(x.number, dtype, device));
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

void compute_in_place(const kernels::Binary& kernel, const Tensor& a, const Tensor& b, Tensor& y) {
  const Tensor& other = &a == &y ? b : a;
  check_same_device(kernel.name(), a, b);
  if (!is_wide_number(other, y)) check_same_dtype(kernel.name(), a, b);
  if (a.shape() != b.shape() && broadcast(kernel.name(), a.shape(), b.shape()) != y.shape())
    fail<ShapeError>(kernel.name(), ": ", other.shape(), " does not fit in place into ", y.shape());
  const auto have_one_layout = [&] {
    return a.strides() == b.strides() && a.layout().offset == b.layout().offset &&
           a.shape() == b.shape();
  };
  // Otherwise elements of y would be overwritten before those of the other operand are read.
  if (a.shares_storage(b) && !have_one_layout()) [[unlikely]] {
    const Tensor copy = other.clone();
    return &other == &b ? kernel(a, copy, y) : kernel(copy, b, y);
  }
  kernel(a, b, y);
}

namespace {

bool broadcasts_to(const Shape& from, const Shape& to) {
  if (from.rank() > to.rank()) return false;
  for (int i = 1; i <= from.rank(); ++i) {
    const int64_t size = from[from.rank() - i];
    if (size != 1 && size != to[to.rank() - i]) return false;
  }
  return true;
}

/// Returns whether x is a number that a GPU does not have in memory
/// (backends/cuda/layout/number.h).
bool is_held_number(const Tensor& x) {
  return x.storage().is_packed() && x.rank() == 0 && x.device().type == DeviceType::kCuda;
}

}  // namespace

bool fits_result(const Tensor& x, const Tensor& other, bool any_dtype) {
  if (x.device() != other.device()) return false;
  if (x.dtype() != other.dtype() && !any_dtype && !is_wide_number(other, x)) return false;
  // A result in the packed layout of `other` is better than one in row-major order.
  if (other.storage().is_packed() && !x.storage().is_packed() && !is_held_number(other))
    return false;
  if (is_held_number(x)) return false;  // memory would have to be made for it
  return x.shape() == other.shape() || broadcasts_to(other.shape(), x.shape());
}

double largest_magnitude(const Variable& x) {
  if (x.numel() == 0) return 0;
  const Variable number = x.detach().to(f64);
  return host_number(amax(abs(number)).value()).to<double>();
}

void require_exact(std::string_view op, double bound, DType dtype) {
  if (bound >= 0x1p53)  // 2^53 may be 2^53 + 1, rounded
    fail<ArgumentError>(op, ": ", dtype,
                        " is computed in float64, which rounds numbers above 2^53; ",
                        "here they may reach ", bound);
}

void check_floats(std::string_view op, const Variable& x) {
  if (!is_float(x.dtype())) fail<DTypeError>(op, ": the input is ", x.dtype(), ", not a float");
}

}  // namespace tapegrad::detail
