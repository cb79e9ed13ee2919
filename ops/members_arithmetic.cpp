// Members of Variable (core/tape/variable_ops.h): arithmetic, products, writes in place, random
// numbers.
#include "ops/activation.h"
#include "ops/aliases.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/bitwise.h"
#include "ops/compare.h"
#include "ops/index.h"
#include "ops/internal/is_recorded.h"
#include "ops/linalg.h"
#include "ops/linalg_composed.h"
#include "ops/linalg_factor.h"
#include "ops/matmul.h"
#include "ops/products.h"
#include "ops/random.h"
#include "ops/rearrange.h"
#include "ops/softmax.h"
#include "ops/special.h"
#include "ops/subscript.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {

using V = Variable;

V FurtherOps::before() const { return detail::is_recorded(self()) ? self().clone() : self(); }
V& FurtherOps::write(std::string_view op, const V& result, Where where) {
  if (result.dtype() != self().dtype()) [[unlikely]]
    fail<DTypeError>(op, ": the result is of ", result.dtype(), ", not of ", self().dtype());
  if (result.shape() != self().shape()) [[unlikely]]
    fail<ShapeError>(op, ": the result has shape ", result.shape(), ", not ", self().shape());
  return tapegrad::copy_(self(), result, where);
}
V& FurtherOps::write(std::string_view op, OfOne member, Where where) {
  return write(op, (before().*member)(where), where);
}
V& FurtherOps::write(std::string_view op, OfTwo member, const Operand& other) {
  return write(op, (before().*member)(other), other.where);
}

// Elementwise, of one operand.
V VariableOps::abs(Where where) const& { return tapegrad::abs(self(), where); }
V VariableOps::abs(Where where) && { return tapegrad::abs(std::move(self()), where); }
V VariableOps::absolute(Where where) const { return tapegrad::absolute(self(), where); }
V VariableOps::neg(Where where) const& { return tapegrad::neg(self(), where); }
V VariableOps::neg(Where where) && { return tapegrad::neg(std::move(self()), where); }
V VariableOps::negative(Where where) const { return tapegrad::negative(self(), where); }
V VariableOps::sign(Where where) const { return tapegrad::sign(self(), where); }
V VariableOps::sgn(Where where) const { return tapegrad::sgn(self(), where); }
V VariableOps::signbit(Where where) const { return tapegrad::signbit(self(), where); }
V VariableOps::square(Where where) const& { return tapegrad::square(self(), where); }
V VariableOps::square(Where where) && { return tapegrad::square(std::move(self()), where); }
V VariableOps::sqrt(Where where) const& { return tapegrad::sqrt(self(), where); }
V VariableOps::sqrt(Where where) && { return tapegrad::sqrt(std::move(self()), where); }
V VariableOps::rsqrt(Where where) const { return tapegrad::rsqrt(self(), where); }
V VariableOps::reciprocal(Where where) const { return tapegrad::reciprocal(self(), where); }
V VariableOps::exp(Where where) const& { return tapegrad::exp(self(), where); }
V VariableOps::exp(Where where) && { return tapegrad::exp(std::move(self()), where); }
V VariableOps::exp2(Where where) const { return tapegrad::exp2(self(), where); }
V VariableOps::expm1(Where where) const { return tapegrad::expm1(self(), where); }
V VariableOps::log(Where where) const& { return tapegrad::log(self(), where); }
V VariableOps::log(Where where) && { return tapegrad::log(std::move(self()), where); }
V VariableOps::log2(Where where) const { return tapegrad::log2(self(), where); }
V VariableOps::log10(Where where) const { return tapegrad::log10(self(), where); }
V VariableOps::log1p(Where where) const { return tapegrad::log1p(self(), where); }
V VariableOps::sin(Where where) const { return tapegrad::sin(self(), where); }
V VariableOps::cos(Where where) const { return tapegrad::cos(self(), where); }
V VariableOps::tan(Where where) const { return tapegrad::tan(self(), where); }
V VariableOps::asin(Where where) const { return tapegrad::asin(self(), where); }
V VariableOps::acos(Where where) const { return tapegrad::acos(self(), where); }
V VariableOps::atan(Where where) const { return tapegrad::atan(self(), where); }
V VariableOps::arcsin(Where where) const { return tapegrad::arcsin(self(), where); }
V VariableOps::arccos(Where where) const { return tapegrad::arccos(self(), where); }
V VariableOps::arctan(Where where) const { return tapegrad::arctan(self(), where); }
V VariableOps::sinh(Where where) const { return tapegrad::sinh(self(), where); }
V VariableOps::cosh(Where where) const { return tapegrad::cosh(self(), where); }
V VariableOps::tanh(Where where) const& { return tapegrad::tanh(self(), where); }
V VariableOps::tanh(Where where) && { return tapegrad::tanh(std::move(self()), where); }
V VariableOps::asinh(Where where) const { return tapegrad::asinh(self(), where); }
V VariableOps::acosh(Where where) const { return tapegrad::acosh(self(), where); }
V VariableOps::atanh(Where where) const { return tapegrad::atanh(self(), where); }
V VariableOps::sinc(Where where) const { return tapegrad::sinc(self(), where); }
V VariableOps::erf(Where where) const { return tapegrad::erf(self(), where); }
V VariableOps::erfc(Where where) const { return tapegrad::erfc(self(), where); }
V VariableOps::erfinv(Where where) const { return tapegrad::erfinv(self(), where); }
V VariableOps::lgamma(Where where) const { return tapegrad::lgamma(self(), where); }
V VariableOps::digamma(Where where) const { return tapegrad::digamma(self(), where); }
V VariableOps::sigmoid(Where where) const& { return tapegrad::sigmoid(self(), where); }
V VariableOps::sigmoid(Where where) && { return tapegrad::sigmoid(std::move(self()), where); }
V VariableOps::relu(Where where) const& { return tapegrad::relu(self(), where); }
V VariableOps::relu(Where where) && { return tapegrad::relu(std::move(self()), where); }
V VariableOps::floor(Where where) const { return tapegrad::floor(self(), where); }
V VariableOps::ceil(Where where) const { return tapegrad::ceil(self(), where); }
V VariableOps::round(Where where) const { return tapegrad::round(self(), where); }
V VariableOps::clamp(detail::NoBound, const Operand& max) const { return clamp_max(max); }
V VariableOps::clip(const Operand& min) const { return clamp(min); }
V VariableOps::clip(detail::NoBound, const Operand& max) const { return clamp_max(max); }
V VariableOps::round(RoundOptions options, Where where) const {
  return tapegrad::round(self(), options, where);
}
V VariableOps::round(int decimals, Where where) const {
  return tapegrad::round(self(), decimals, where);
}
V VariableOps::trunc(Where where) const { return tapegrad::trunc(self(), where); }
V VariableOps::fix(Where where) const { return tapegrad::fix(self(), where); }
V VariableOps::frac(Where where) const { return tapegrad::frac(self(), where); }
V VariableOps::deg2rad(Where where) const { return tapegrad::deg2rad(self(), where); }
V VariableOps::rad2deg(Where where) const { return tapegrad::rad2deg(self(), where); }
V VariableOps::logical_not(Where where) const { return tapegrad::logical_not(self(), where); }
V VariableOps::bitwise_not(Where where) const { return tapegrad::bitwise_not(self(), where); }
V VariableOps::isnan(Where where) const { return tapegrad::isnan(self(), where); }
V VariableOps::isinf(Where where) const { return tapegrad::isinf(self(), where); }
V VariableOps::isposinf(Where where) const { return tapegrad::isposinf(self(), where); }
V VariableOps::isneginf(Where where) const { return tapegrad::isneginf(self(), where); }
V VariableOps::isfinite(Where where) const { return tapegrad::isfinite(self(), where); }
V VariableOps::logit(double eps, Where where) const { return tapegrad::logit(self(), eps, where); }
V VariableOps::logit(Where where) const { return tapegrad::logit(self(), {}, where); }
V VariableOps::nan_to_num(double nan, Where where) const {
  return tapegrad::nan_to_num(self(), {.nan = nan}, where);
}
V VariableOps::nan_to_num(double nan, double posinf, double neginf, Where where) const {
  return tapegrad::nan_to_num(self(), {.nan = nan, .posinf = posinf, .neginf = neginf}, where);
}
V Variable::to(const torch::TensorOptions& chained) const {
  const TensorOptions& options = chained;
  Variable x = *this;
  if (options.device) x = x.to(*options.device, options.where);
  return options.dtype ? x.to(*options.dtype, options.where) : x;
}
V VariableOps::clamp(const Operand& min, const Operand& max) const {
  return tapegrad::clamp(self(), min, max);
}
V VariableOps::clamp(const Operand& min) const { return tapegrad::clamp_min(self(), min); }
V VariableOps::clamp(ClampOptions options, Where where) const {
  return tapegrad::clamp(self(), options, where);
}
V VariableOps::clip(const Operand& min, const Operand& max) const {
  return tapegrad::clamp(self(), min, max);
}
V VariableOps::clamp_min(const Operand& min) const { return tapegrad::clamp_min(self(), min); }
V VariableOps::clamp_max(const Operand& max) const { return tapegrad::clamp_max(self(), max); }
V VariableOps::softmax(int dim, Where where) const { return tapegrad::softmax(self(), dim, where); }
V VariableOps::softmax(SoftmaxOptions options, Where where) const {
  return tapegrad::softmax(self(), options, where);
}
template <std::same_as<DType> D>
V VariableOps::softmax(int dim, D dtype, Where where) const {
  return tapegrad::softmax(self(), dim, dtype, where);
}
template V VariableOps::softmax(int, DType, Where) const;
V VariableOps::log_softmax(SoftmaxOptions options, Where where) const {
  return tapegrad::log_softmax(self(), options, where);
}
template <std::same_as<DType> D>
V VariableOps::log_softmax(int dim, D dtype, Where where) const {
  return tapegrad::log_softmax(self(), dim, dtype, where);
}
template V VariableOps::log_softmax(int, DType, Where) const;
V VariableOps::log_softmax(int dim, Where where) const {
  return tapegrad::log_softmax(self(), dim, where);
}

// Elementwise, of two operands: variables or numbers.
V VariableOps::add(Operand other) const& {
  return tapegrad::add({self(), other.where}, std::move(other));
}
V VariableOps::add(Operand other) && {
  return tapegrad::add({std::move(self()), other.where}, std::move(other));
}
V VariableOps::add(const Operand& other, Number alpha) const {
  return tapegrad::add(self(), other, alpha);
}
V VariableOps::sub(const Operand& other, Number alpha) const {
  return tapegrad::sub(self(), other, alpha);
}
V VariableOps::add(const Operand& other, AlphaOptions options) const {
  return tapegrad::add(self(), other, options);
}
V VariableOps::sub(const Operand& other, AlphaOptions options) const {
  return tapegrad::sub(self(), other, options);
}
V VariableOps::sub(Operand other) const& {
  return tapegrad::sub({self(), other.where}, std::move(other));
}
V VariableOps::sub(Operand other) && {
  return tapegrad::sub({std::move(self()), other.where}, std::move(other));
}
V VariableOps::mul(Operand other) const& {
  return tapegrad::mul({self(), other.where}, std::move(other));
}
V VariableOps::mul(Operand other) && {
  return tapegrad::mul({std::move(self()), other.where}, std::move(other));
}
V VariableOps::div(Operand other) const& {
  return tapegrad::div({self(), other.where}, std::move(other));
}
V VariableOps::div(Operand other) && {
  return tapegrad::div({std::move(self()), other.where}, std::move(other));
}
V VariableOps::subtract(const Operand& other) const {
  return tapegrad::subtract({self(), other.where}, other);
}
V VariableOps::multiply(const Operand& other) const {
  return tapegrad::multiply({self(), other.where}, other);
}
V VariableOps::divide(const Operand& other) const {
  return tapegrad::divide({self(), other.where}, other);
}
V VariableOps::true_divide(const Operand& other) const {
  return tapegrad::true_divide({self(), other.where}, other);
}
V VariableOps::floor_divide(const Operand& other) const {
  return tapegrad::floor_divide({self(), other.where}, other);
}
V VariableOps::remainder(const Operand& other) const {
  return tapegrad::remainder({self(), other.where}, other);
}
V VariableOps::fmod(const Operand& other) const {
  return tapegrad::fmod({self(), other.where}, other);
}
V VariableOps::pow(Operand exponent) const& {
  return tapegrad::pow({self(), exponent.where}, std::move(exponent));
}
V VariableOps::pow(Operand exponent) && {
  return tapegrad::pow({std::move(self()), exponent.where}, std::move(exponent));
}
V VariableOps::float_power(const Operand& exponent) const {
  return tapegrad::float_power({self(), exponent.where}, exponent);
}
V VariableOps::maximum(const Operand& other) const {
  return tapegrad::maximum({self(), other.where}, other);
}
V VariableOps::minimum(const Operand& other) const {
  return tapegrad::minimum({self(), other.where}, other);
}
V VariableOps::fmax(const Operand& other) const {
  return tapegrad::fmax({self(), other.where}, other);
}
V VariableOps::fmin(const Operand& other) const {
  return tapegrad::fmin({self(), other.where}, other);
}
V VariableOps::atan2(const Operand& other) const {
  return tapegrad::atan2({self(), other.where}, other);
}
V VariableOps::arctan2(const Operand& other) const {
  return tapegrad::arctan2({self(), other.where}, other);
}
V VariableOps::hypot(const Operand& other) const {
  return tapegrad::hypot({self(), other.where}, other);
}
V VariableOps::copysign(const Operand& other) const {
  return tapegrad::copysign({self(), other.where}, other);
}
V VariableOps::ldexp(const Operand& other) const {
  return tapegrad::ldexp({self(), other.where}, other);
}
V VariableOps::xlogy(const Operand& other) const {
  return tapegrad::xlogy({self(), other.where}, other);
}
V VariableOps::logaddexp(const Operand& other) const {
  return tapegrad::logaddexp({self(), other.where}, other);
}
V VariableOps::gcd(const Operand& other) const {
  return tapegrad::gcd({self(), other.where}, other);
}
V VariableOps::lcm(const Operand& other) const {
  return tapegrad::lcm({self(), other.where}, other);
}
V VariableOps::eq(const Operand& other) const { return tapegrad::eq({self(), other.where}, other); }
V VariableOps::ne(const Operand& other) const { return tapegrad::ne({self(), other.where}, other); }
V VariableOps::lt(const Operand& other) const { return tapegrad::lt({self(), other.where}, other); }
V VariableOps::le(const Operand& other) const { return tapegrad::le({self(), other.where}, other); }
V VariableOps::gt(const Operand& other) const { return tapegrad::gt({self(), other.where}, other); }
V VariableOps::ge(const Operand& other) const { return tapegrad::ge({self(), other.where}, other); }
V VariableOps::less(const Operand& other) const {
  return tapegrad::less({self(), other.where}, other);
}
V VariableOps::less_equal(const Operand& other) const {
  return tapegrad::less_equal({self(), other.where}, other);
}
V VariableOps::greater(const Operand& other) const {
  return tapegrad::greater({self(), other.where}, other);
}
V VariableOps::greater_equal(const Operand& other) const {
  return tapegrad::greater_equal({self(), other.where}, other);
}
V VariableOps::not_equal(const Operand& other) const {
  return tapegrad::not_equal({self(), other.where}, other);
}
V VariableOps::logical_and(const Operand& other) const {
  return tapegrad::logical_and({self(), other.where}, other);
}
V VariableOps::logical_or(const Operand& other) const {
  return tapegrad::logical_or({self(), other.where}, other);
}
V VariableOps::logical_xor(const Operand& other) const {
  return tapegrad::logical_xor({self(), other.where}, other);
}
V VariableOps::bitwise_and(const Operand& other) const {
  return tapegrad::bitwise_and({self(), other.where}, other);
}
V VariableOps::bitwise_or(const Operand& other) const {
  return tapegrad::bitwise_or({self(), other.where}, other);
}
V VariableOps::bitwise_xor(const Operand& other) const {
  return tapegrad::bitwise_xor({self(), other.where}, other);
}
V VariableOps::lerp(const V& end, const Operand& weight) const {
  return tapegrad::lerp(self(), end, weight);
}
V VariableOps::isclose(const V& other, double rtol, double atol, bool equal_nan,
                       Where where) const {
  return tapegrad::isclose(self(), other, rtol, atol, equal_nan, where);
}
bool VariableOps::allclose(const V& other, double rtol, double atol, bool equal_nan,
                           Where where) const {
  return tapegrad::allclose(self(), other, rtol, atol, equal_nan, where);
}
bool VariableOps::equal(const V& other, Where where) const {
  return tapegrad::equal(self(), other, where);
}

// Products and matrices.
V VariableOps::matmul(const V& other, Where where) const {
  return tapegrad::matmul(self(), other, where);
}
V VariableOps::mm(const V& other, Where where) const { return tapegrad::mm(self(), other, where); }
V VariableOps::bmm(const V& other, Where where) const {
  return tapegrad::bmm(self(), other, where);
}
V VariableOps::mv(const V& other, Where where) const { return tapegrad::mv(self(), other, where); }
V VariableOps::dot(const V& other, Where where) const {
  return tapegrad::dot(self(), other, where);
}
V VariableOps::vdot(const V& other, Where where) const {
  return tapegrad::vdot(self(), other, where);
}
V VariableOps::inner(const V& other, Where where) const {
  return tapegrad::inner(self(), other, where);
}
V VariableOps::outer(const V& other, Where where) const {
  return tapegrad::outer(self(), other, where);
}
V VariableOps::kron(const V& other, Where where) const {
  return tapegrad::kron(self(), other, where);
}
V VariableOps::cross(const V& other, Where where) const {
  return tapegrad::cross(self(), other, {}, where);
}
V VariableOps::cross(const V& other, int dim, Where where) const {
  return tapegrad::cross(self(), other, dim, where);
}
V VariableOps::addmm(const V& a, const V& b, Number beta, Number alpha, Where where) const {
  return tapegrad::addmm(self(), a, b, {.beta = beta, .alpha = alpha}, where);
}
V VariableOps::addmv(const V& a, const V& b, Number beta, Number alpha, Where where) const {
  return tapegrad::addmv(self(), a, b, {.beta = beta, .alpha = alpha}, where);
}
V VariableOps::addr(const V& a, const V& b, Number beta, Number alpha, Where where) const {
  return tapegrad::addr(self(), a, b, {.beta = beta, .alpha = alpha}, where);
}
V VariableOps::baddbmm(const V& a, const V& b, Number beta, Number alpha, Where where) const {
  return tapegrad::baddbmm(self(), a, b, {.beta = beta, .alpha = alpha}, where);
}
V VariableOps::addbmm(const V& a, const V& b, Number beta, Number alpha, Where where) const {
  return tapegrad::addbmm(self(), a, b, {.beta = beta, .alpha = alpha}, where);
}
V VariableOps::det(Where where) const { return tapegrad::det(self(), where); }
V VariableOps::logdet(Where where) const { return tapegrad::logdet(self(), where); }
V VariableOps::inverse(Where where) const { return tapegrad::inverse(self(), where); }
V VariableOps::pinverse(Where where) const { return tapegrad::pinverse(self(), where); }
V VariableOps::matrix_exp(Where where) const { return tapegrad::matrix_exp(self(), where); }
linalg::Slogdet VariableOps::slogdet(Where where) const { return linalg::slogdet(self(), where); }
V VariableOps::cholesky(bool upper, Where where) const {
  return linalg::cholesky(self(), upper, where);
}
V VariableOps::matrix_power(int64_t n, Where where) const {
  return tapegrad::matrix_power(self(), n, where);
}

// In place. The result must have shape and dtype of this variable.
V& VariableOps::add_(const Operand& other) { return tapegrad::add_(self(), other); }
V& VariableOps::sub_(const Operand& other) { return tapegrad::sub_(self(), other); }
V& VariableOps::add_(const Operand& other, Number alpha) {
  return tapegrad::add_(self(), {tapegrad::mul(other, {alpha, other.where}), other.where});
}
V& VariableOps::sub_(const Operand& other, Number alpha) {
  return tapegrad::sub_(self(), {tapegrad::mul(other, {alpha, other.where}), other.where});
}
V& VariableOps::add_(const Operand& other, AlphaOptions options) {
  return add_(other, options.alpha);
}
V& VariableOps::sub_(const Operand& other, AlphaOptions options) {
  return sub_(other, options.alpha);
}
V& VariableOps::mul_(const Operand& other) { return tapegrad::mul_(self(), other); }
V VariableOps::div(const Operand& other, DivOptions options) const {
  return tapegrad::div({self(), other.where}, other, options);
}
V VariableOps::div(const Operand& other, std::string_view rounding_mode) const {
  return tapegrad::div({self(), other.where}, other, rounding_mode);
}
V& VariableOps::div_(const Operand& other) { return tapegrad::div_(self(), other); }
V& VariableOps::div_(const Operand& other, std::string_view rounding_mode) {
  return write("div_", before().div(other, rounding_mode), other.where);
}
V& VariableOps::copy_(const Tensor& values, Where where) { return copy_(V(values), where); }
V& VariableOps::copy_(const V& values, Where where) {
  return tapegrad::copy_(self(), values, where);
}
V& VariableOps::fill_(Number value, Where where) { return tapegrad::fill_(self(), value, where); }
V& VariableOps::fill_(const V& value, Where where) {
  if (value.rank() != 0)
    fail<ShapeError>("fill_: a value of rank 0 wanted, not of shape ", value.shape());
  return tapegrad::copy_(self(), value, where);
}
V& VariableOps::zero_(Where where) { return tapegrad::zero_(self(), where); }
V& VariableOps::neg_(Where where) { return tapegrad::neg_(self(), where); }
V& VariableOps::exp_(Where where) { return tapegrad::exp_(self(), where); }
V& VariableOps::sqrt_(Where where) { return tapegrad::sqrt_(self(), where); }
V& VariableOps::tanh_(Where where) { return tapegrad::tanh_(self(), where); }
V& VariableOps::relu_(Where where) { return tapegrad::relu_(self(), where); }
V& VariableOps::sigmoid_(Where where) { return tapegrad::sigmoid_(self(), where); }
V& VariableOps::abs_(Where where) { return write("abs_", before().abs(where), where); }
V& VariableOps::sign_(Where where) { return write("sign_", OfOne(&V::sign), where); }
V& VariableOps::square_(Where where) { return write("square_", before().square(where), where); }
V& VariableOps::rsqrt_(Where where) { return write("rsqrt_", OfOne(&V::rsqrt), where); }
V& VariableOps::reciprocal_(Where where) {
  return write("reciprocal_", OfOne(&V::reciprocal), where);
}
V& VariableOps::log_(Where where) { return write("log_", before().log(where), where); }
V& VariableOps::log2_(Where where) { return write("log2_", OfOne(&V::log2), where); }
V& VariableOps::log10_(Where where) { return write("log10_", OfOne(&V::log10), where); }
V& VariableOps::log1p_(Where where) { return write("log1p_", OfOne(&V::log1p), where); }
V& VariableOps::expm1_(Where where) { return write("expm1_", OfOne(&V::expm1), where); }
V& VariableOps::sin_(Where where) { return write("sin_", OfOne(&V::sin), where); }
V& VariableOps::cos_(Where where) { return write("cos_", OfOne(&V::cos), where); }
V& VariableOps::erf_(Where where) { return write("erf_", OfOne(&V::erf), where); }
V& VariableOps::floor_(Where where) { return write("floor_", OfOne(&V::floor), where); }
V& VariableOps::ceil_(Where where) { return write("ceil_", OfOne(&V::ceil), where); }
V& VariableOps::round_(Where where) { return write("round_", OfOne(&V::round), where); }
V& VariableOps::trunc_(Where where) { return write("trunc_", OfOne(&V::trunc), where); }
V& VariableOps::frac_(Where where) { return write("frac_", OfOne(&V::frac), where); }
V& VariableOps::clamp_(const Operand& min, const Operand& max) {
  return write("clamp_", before().clamp(min, max), min.where);
}
V& VariableOps::clip_(const Operand& min, const Operand& max) {
  return write("clip_", before().clamp(min, max), min.where);
}
V& VariableOps::clamp_(detail::NoBound, const Operand& max) { return clamp_max_(max); }
V& VariableOps::clip_(detail::NoBound, const Operand& max) { return clamp_max_(max); }
V& VariableOps::clamp_min_(const Operand& min) {
  return write("clamp_min_", OfTwo(&V::clamp_min), min);
}
V& VariableOps::clamp_max_(const Operand& max) {
  return write("clamp_max_", OfTwo(&V::clamp_max), max);
}
V& VariableOps::pow_(const Operand& other) {
  return write("pow_", before().pow(other), other.where);
}
V& VariableOps::remainder_(const Operand& other) {
  return write("remainder_", OfTwo(&V::remainder), other);
}
V& VariableOps::fmod_(const Operand& other) { return write("fmod_", OfTwo(&V::fmod), other); }
V& VariableOps::floor_divide_(const Operand& other) {
  return write("floor_divide_", OfTwo(&V::floor_divide), other);
}
V& VariableOps::lerp_(const V& end, const Operand& weight) {
  return write("lerp_", before().lerp(end, weight), weight.where);
}
V& VariableOps::addmm_(const V& a, const V& b, Number beta, Number alpha, Where where) {
  return write("addmm_", before().addmm(a, b, beta, alpha, where), where);
}
V& VariableOps::masked_fill_(const V& mask, Number value, Where where) {
  return tapegrad::masked_fill_(self(), mask, value, where);
}
V& VariableOps::masked_fill_(const V& mask, const V& value, Where where) {
  return write("masked_fill_", tapegrad::masked_fill(before(), mask, value, where), where);
}
V& VariableOps::masked_scatter_(const V& mask, const V& source, Where where) {
  return write("masked_scatter_", before().masked_scatter(mask, source, where), where);
}
V& VariableOps::index_put_(const std::vector<Subscript>& subscripts, const Operand& values,
                           bool accumulate) {
  return tapegrad::index_put_(self(), subscripts, values, accumulate);
}
V& VariableOps::index_add_(int dim, const V& index, const V& source, double alpha, Where where) {
  return write("index_add_", before().index_add(dim, index, source, alpha, where), where);
}
V& VariableOps::index_copy_(int dim, const V& index, const V& source, Where where) {
  return write("index_copy_", before().index_copy(dim, index, source, where), where);
}
V& VariableOps::index_fill_(int dim, const V& index, Number value, Where where) {
  return write("index_fill_", before().index_fill(dim, index, value, where), where);
}
V& VariableOps::scatter_(int dim, const V& index, const V& source, Where where) {
  return write("scatter_", before().scatter(dim, index, source, where), where);
}
V& VariableOps::scatter_(int dim, const V& index, Number value, Where where) {
  return write("scatter_", before().scatter(dim, index, value, where), where);
}
V& VariableOps::scatter_(int dim, const V& index, const V& source, std::string_view reduce,
                         Where where) {
  return write("scatter_", before().scatter(dim, index, source, reduce, where), where);
}
V& VariableOps::scatter_reduce_(int dim, const V& index, const V& source, std::string_view reduce,
                                bool include_self, Where where) {
  return write("scatter_reduce_",
               before().scatter_reduce(dim, index, source, reduce, include_self, where), where);
}
V& VariableOps::scatter_add_(int dim, const V& index, const V& source, Where where) {
  return write("scatter_add_", before().scatter_add(dim, index, source, where), where);
}
V& VariableOps::put_(const V& index, const V& source, bool accumulate) {
  const Where where = Where::current();
  const V flat = tapegrad::index_put(before().reshape({-1}, where), {index}, source, accumulate);
  return write("put_", flat.reshape(self().shape(), where), where);
}
V& VariableOps::fill_diagonal_(Number value, Where where) {
  V diagonal = self().diagonal(0, 0, 1, where);
  if (self().rank() != 2) fail<ShapeError>("fill_diagonal_: a matrix wanted, not ", self().shape());
  tapegrad::fill_(diagonal, value, where);
  return self();
}
V& VariableOps::tril_(int64_t diagonal, Where where) {
  return write("tril_", before().tril(diagonal, where), where);
}
V& VariableOps::triu_(int64_t diagonal, Where where) {
  return write("triu_", before().triu(diagonal, where), where);
}
V& VariableOps::nan_to_num_(double nan, Where where) {
  return write("nan_to_num_", before().nan_to_num(nan, where), where);
}
V& VariableOps::normal_(double mean, double std, Where where) {
  return tapegrad::normal_(self(), mean, std, default_generator(), where);
}
V& VariableOps::uniform_(double low, double high, Where where) {
  return tapegrad::uniform_(self(), low, high, default_generator(), where);
}
V& VariableOps::exponential_(double lambd, Where where) {
  return tapegrad::exponential_(self(), lambd, default_generator(), where);
}
V& VariableOps::bernoulli_(double p) {
  const TensorOptions options{.dtype = f32, .device = self().device()};
  return copy_(tapegrad::bernoulli(full(self().shape(), p, options)));
}
V& VariableOps::random_(int64_t from, int64_t to) {
  return copy_(
      randint(from, to, self().shape(), {.dtype = self().dtype(), .device = self().device()}));
}

// Random numbers.
V VariableOps::bernoulli(Where where) const {
  return tapegrad::bernoulli(self(), default_generator(), where);
}
V VariableOps::multinomial(int64_t num_samples, bool replacement, Where where) const {
  return tapegrad::multinomial(self(), num_samples, replacement, default_generator(), where);
}

}  // namespace tapegrad
