// Members of Variable (core/tape/further_ops.h).
#include <cmath>
#include <numbers>

#include "core/cuda.h"
#include "ops/activation.h"
#include "ops/activation_composed.h"
#include "ops/aliases.h"
#include "ops/arithmetic.h"
#include "ops/binary.h"
#include "ops/compare.h"
#include "ops/index.h"
#include "ops/linalg.h"
#include "ops/products.h"
#include "ops/random.h"
#include "ops/scatter.h"
#include "ops/special.h"
#include "ops/special_composed.h"
#include "ops/subscript.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {

using V = Variable;

const V& FurtherOps::self() const { return static_cast<const V&>(*this); }
V& FurtherOps::self() { return static_cast<V&>(*this); }

int FurtherOps::ndimension() const { return self().rank(); }
int64_t FurtherOps::nbytes() const { return self().numel() * itemsize(); }
bool FurtherOps::is_floating_point() const { return is_float(self().dtype()); }
bool FurtherOps::is_cpu() const { return self().device().is_cpu(); }
bool FurtherOps::is_signed() const { return self().dtype() != u8 && self().dtype() != boolean; }
bool FurtherOps::is_complex() const { return false; }
bool FurtherOps::is_same_size(const V& other) const { return self().shape() == other.shape(); }
int64_t FurtherOps::itemsize() const { return self().element_size(); }
int64_t FurtherOps::storage_offset() const { return self().value().layout().offset; }
int64_t FurtherOps::get_device() const { return is_cpu() ? -1 : self().device().index; }

V FurtherOps::pin_memory(Where where) const { return cuda::pin_memory(self(), gpu, where); }
bool FurtherOps::is_pinned() const { return cuda::is_pinned(self()); }

V FurtherOps::positive() const { return self(); }
V FurtherOps::arcsinh(Where where) const { return self().asinh(where); }
V FurtherOps::arccosh(Where where) const { return self().acosh(where); }
V FurtherOps::arctanh(Where where) const { return self().atanh(where); }
V FurtherOps::i0(Where where) const { return tapegrad::i0(self(), where); }
V FurtherOps::polygamma(int64_t n, Where where) const {
  return tapegrad::polygamma(n, self(), where);
}
V FurtherOps::mvlgamma(int64_t p, Where where) const {
  return tapegrad::mvlgamma(self(), p, where);
}
V FurtherOps::heaviside(const Operand& values) const { return tapegrad::heaviside(self(), values); }
V FurtherOps::logaddexp2(const Operand& other) const {
  return tapegrad::logaddexp2({self(), other.where}, other);
}
V FurtherOps::nextafter(const Operand& other) const { return tapegrad::nextafter(self(), other); }
Frexp FurtherOps::frexp(Where where) const { return tapegrad::frexp(self(), where); }
V FurtherOps::addcmul(const V& a, const V& b, Number value, Where where) const {
  return tapegrad::addcmul(self(), a, b, value, where);
}
V FurtherOps::addcmul(const V& a, const V& b, ValueOption option, Where where) const {
  return addcmul(a, b, option.value, where);
}
V FurtherOps::addcdiv(const V& a, const V& b, Number value, Where where) const {
  return tapegrad::addcdiv(self(), a, b, value, where);
}
V FurtherOps::addcdiv(const V& a, const V& b, ValueOption option, Where where) const {
  return addcdiv(a, b, option.value, where);
}
V FurtherOps::bitwise_left_shift(const Operand& other) const {
  return tapegrad::bitwise_left_shift({self(), other.where}, other);
}
V FurtherOps::bitwise_right_shift(const Operand& other) const {
  return tapegrad::bitwise_right_shift({self(), other.where}, other);
}
V FurtherOps::prelu(const V& weight, Where where) const {
  return tapegrad::prelu(self(), weight, where);
}
V FurtherOps::hardshrink(double lambd, Where where) const {
  return tapegrad::hardshrink(self(), lambd, where);
}
V FurtherOps::leaky_relu(double negative_slope, Where where) const {
  return tapegrad::leaky_relu(self(), negative_slope, where);
}
V FurtherOps::elu(double alpha, Where where) const { return tapegrad::elu(self(), alpha, where); }
V FurtherOps::relu6(Where where) const { return tapegrad::relu6(self(), where); }
V FurtherOps::gelu(Where where) const { return tapegrad::gelu(self(), Gelu::kErf, where); }
V FurtherOps::silu(Where where) const { return tapegrad::silu(self(), where); }
V FurtherOps::softplus(Where where) const { return tapegrad::softplus(self(), 1.0, 20.0, where); }

V FurtherOps::H(Where where) const {
  if (self().rank() != 0 && self().rank() != 2)
    fail<ShapeError>("H: a matrix wanted, not ", self().shape());
  return self().t(where);
}
V FurtherOps::adjoint(Where where) const { return self().mT(where); }
V FurtherOps::ger(const V& other, Where where) const { return tapegrad::ger(self(), other, where); }
V FurtherOps::diagflat(int64_t offset, Where where) const {
  return tapegrad::diagflat(self(), offset, where);
}
V FurtherOps::put(const V& index, const V& source, bool accumulate) const {
  return self().clone().put_(index, source, accumulate);
}
V FurtherOps::index_reduce(int dim, const V& index, const V& source, std::string_view reduce,
                           bool include_self, Where where) const {
  return tapegrad::index_reduce(self(), dim, index, source, reduce, include_self, where);
}
V FurtherOps::index_reduce(int dim, const V& index, const V& source, std::string_view reduce,
                           IncludeSelfOption option, Where where) const {
  return index_reduce(dim, index, source, reduce, option.include_self, where);
}
std::vector<V> FurtherOps::dsplit(const Sections& sections, Where where) const {
  return tapegrad::dsplit(self(), sections, where);
}
std::vector<V> FurtherOps::split_with_sizes(const std::vector<int64_t>& sizes, int dim,
                                            Where where) const {
  return tapegrad::split(self(), sizes, dim, where);
}

V& FurtherOps::tan_(Where where) { return write("tan_", OfOne(&V::tan), where); }
V& FurtherOps::asin_(Where where) { return write("asin_", OfOne(&V::asin), where); }
V& FurtherOps::acos_(Where where) { return write("acos_", OfOne(&V::acos), where); }
V& FurtherOps::atan_(Where where) { return write("atan_", OfOne(&V::atan), where); }
V& FurtherOps::sinh_(Where where) { return write("sinh_", OfOne(&V::sinh), where); }
V& FurtherOps::cosh_(Where where) { return write("cosh_", OfOne(&V::cosh), where); }
V& FurtherOps::exp2_(Where where) { return write("exp2_", OfOne(&V::exp2), where); }
V& FurtherOps::erfc_(Where where) { return write("erfc_", OfOne(&V::erfc), where); }
V& FurtherOps::erfinv_(Where where) { return write("erfinv_", OfOne(&V::erfinv), where); }
V& FurtherOps::lgamma_(Where where) { return write("lgamma_", OfOne(&V::lgamma), where); }
V& FurtherOps::digamma_(Where where) { return write("digamma_", OfOne(&V::digamma), where); }
V& FurtherOps::negative_(Where where) { return self().neg_(where); }
V& FurtherOps::logit_(std::optional<double> eps, Where where) {
  return write("logit_", tapegrad::logit(before(), eps, where), where);
}
V& FurtherOps::cumsum_(int dim, Where where) {
  return write("cumsum_", before().cumsum(dim, where), where);
}
V& FurtherOps::cumprod_(int dim, Where where) {
  return write("cumprod_", before().cumprod(dim, where), where);
}
V& FurtherOps::renorm_(double p, int dim, double maxnorm, Where where) {
  return write("renorm_", before().renorm(p, dim, maxnorm, where), where);
}
V& FurtherOps::multiply_(const Operand& other) { return self().mul_(other); }
V& FurtherOps::subtract_(const Operand& other) { return self().sub_(other); }
V& FurtherOps::divide_(const Operand& other) { return self().div_(other); }
V& FurtherOps::true_divide_(const Operand& other) { return self().div_(other); }
V& FurtherOps::atan2_(const Operand& other) { return write("atan2_", OfTwo(&V::atan2), other); }
V& FurtherOps::hypot_(const Operand& other) { return write("hypot_", OfTwo(&V::hypot), other); }
V& FurtherOps::copysign_(const Operand& other) {
  return write("copysign_", OfTwo(&V::copysign), other);
}
V& FurtherOps::xlogy_(const Operand& other) { return write("xlogy_", OfTwo(&V::xlogy), other); }
V& FurtherOps::bitwise_and_(const Operand& other) {
  return write("bitwise_and_", OfTwo(&V::bitwise_and), other);
}
V& FurtherOps::bitwise_or_(const Operand& other) {
  return write("bitwise_or_", OfTwo(&V::bitwise_or), other);
}
V& FurtherOps::bitwise_xor_(const Operand& other) {
  return write("bitwise_xor_", OfTwo(&V::bitwise_xor), other);
}
V& FurtherOps::addcmul_(const V& a, const V& b, Number value, Where where) {
  return write("addcmul_", before().addcmul(a, b, value, where), where);
}
V& FurtherOps::addcdiv_(const V& a, const V& b, Number value, Where where) {
  return write("addcdiv_", before().addcdiv(a, b, value, where), where);
}
V& FurtherOps::index_reduce_(int dim, const V& index, const V& source, std::string_view reduce,
                             bool include_self, Where where) {
  return write("index_reduce_",
               before().index_reduce(dim, index, source, reduce, include_self, where), where);
}
V& FurtherOps::index_reduce_(int dim, const V& index, const V& source, std::string_view reduce,
                             IncludeSelfOption option, Where where) {
  return index_reduce_(dim, index, source, reduce, option.include_self, where);
}
V& FurtherOps::addmv_(const V& a, const V& b, Number beta, Number alpha, Where where) {
  return write("addmv_", before().addmv(a, b, beta, alpha, where), where);
}
V& FurtherOps::addr_(const V& a, const V& b, Number beta, Number alpha, Where where) {
  return write("addr_", before().addr(a, b, beta, alpha, where), where);
}
V& FurtherOps::baddbmm_(const V& a, const V& b, Number beta, Number alpha, Where where) {
  return write("baddbmm_", before().baddbmm(a, b, beta, alpha, where), where);
}
V& FurtherOps::addbmm_(const V& a, const V& b, Number beta, Number alpha, Where where) {
  return write("addbmm_", before().addbmm(a, b, beta, alpha, where), where);
}
V& FurtherOps::log_normal_(double mean, double std, Where where) {
  return self().normal_(mean, std, where).exp_(where);
}
V& FurtherOps::cauchy_(double median, double sigma, Where where) {
  if (!(sigma > 0)) fail<ArgumentError>("cauchy_: sigma ", sigma, " is not positive");
  const V angle = (self().uniform_(0, 1, where).detach() - 0.5) * std::numbers::pi;
  return write("cauchy_", median + sigma * tan(angle, where), where);
}
V& FurtherOps::geometric_(double p, Where where) {
  if (!(0 < p && p < 1)) fail<ArgumentError>("geometric_: p ", p, " is outside (0, 1)");
  // 1 - u is in (0, 1], so that its logarithm is finite.
  const V u = rand(self().shape(), {.device = self().device()});
  return self().copy_(clamp_min(ceil(log1p(-u) * (1 / std::log1p(-p))), 1), where);
}

}  // namespace tapegrad
