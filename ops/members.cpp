// The members of Variable that are ops (core/tape/variable.h), by the functions of the same name.
#include "core/tape/view.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/index.h"
#include "ops/matmul.h"
#include "ops/reduce.h"
#include "ops/softmax.h"
#include "ops/subscript.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {

using V = Variable;

void V::operator=(const V& values) && { tapegrad::copy_(*this, values); }
void V::operator=(const Operand& values) && {
  if (values.variable != nullptr)
    tapegrad::copy_(*this, *values.variable, values.where);
  else
    tapegrad::fill_(*this, values.number, values.where);
}

V V::sum(Where where) const { return tapegrad::sum(*this, where); }
V V::sum(const Dims& dims, bool keepdim, Where where) const {
  return tapegrad::sum(*this, dims, keepdim, where);
}
V V::mean(Where where) const { return tapegrad::mean(*this, where); }
V V::mean(const Dims& dims, bool keepdim, Where where) const {
  return tapegrad::mean(*this, dims, keepdim, where);
}
V V::prod(Where where) const { return tapegrad::prod(*this, where); }
V V::std(Where where) const { return tapegrad::std(*this, {}, where); }
V V::std(const Dims& dims, bool unbiased, bool keepdim, Where where) const {
  return tapegrad::std(*this, dims, {.correction = unbiased, .keepdim = keepdim}, where);
}
V V::var(Where where) const { return tapegrad::var(*this, {}, where); }
V V::var(const Dims& dims, bool unbiased, bool keepdim, Where where) const {
  return tapegrad::var(*this, dims, {.correction = unbiased, .keepdim = keepdim}, where);
}
V V::norm(double p, Where where) const { return tapegrad::norm(*this, p, where); }
V V::max(Where where) const { return tapegrad::max(*this, where); }
ValuesIndices V::max(int dim, bool keepdim, Where where) const {
  return tapegrad::max(*this, dim, keepdim, where);
}
V V::min(Where where) const { return tapegrad::min(*this, where); }
ValuesIndices V::min(int dim, bool keepdim, Where where) const {
  return tapegrad::min(*this, dim, keepdim, where);
}
V V::argmax(Where where) const { return tapegrad::argmax(*this, {}, false, where); }
V V::argmax(int dim, bool keepdim, Where where) const {
  return tapegrad::argmax(*this, dim, keepdim, where);
}
V V::argmin(Where where) const { return tapegrad::argmin(*this, {}, false, where); }
V V::argmin(int dim, bool keepdim, Where where) const {
  return tapegrad::argmin(*this, dim, keepdim, where);
}
V V::any(Where where) const { return tapegrad::any(*this, where); }
V V::all(Where where) const { return tapegrad::all(*this, where); }
V V::cumsum(int dim, Where where) const { return tapegrad::cumsum(*this, dim, where); }

V V::reshape(const Shape& shape, Where where) const {
  return tapegrad::reshape(*this, shape, where);
}
V V::view(const Shape& shape, Where where) const { return tapegrad::view(*this, shape, where); }
V V::flatten(int start_dim, int end_dim, Where where) const {
  return tapegrad::flatten(*this, start_dim, end_dim, where);
}
V V::squeeze(Where where) const { return tapegrad::squeeze(*this, where); }
V V::squeeze(int dim, Where where) const { return tapegrad::squeeze(*this, dim, where); }
V V::unsqueeze(int dim, Where where) const { return tapegrad::unsqueeze(*this, dim, where); }
V V::transpose(int dim0, int dim1, Where where) const {
  return tapegrad::transpose(*this, dim0, dim1, where);
}
V V::t(Where where) const { return tapegrad::t(*this, where); }
V V::permute(const Dims& dims, Where where) const { return tapegrad::permute(*this, dims, where); }
V V::expand(const Shape& shape, Where where) const { return tapegrad::expand(*this, shape, where); }
V V::repeat(const Dims& times, Where where) const { return tapegrad::repeat(*this, times, where); }
V V::select(int dim, int64_t index, Where where) const {
  return tapegrad::select(*this, dim, index, where);
}
V V::slice(int dim, int64_t start, int64_t end, int64_t step, Where where) const {
  return tapegrad::slice(*this, dim, start, end, step, where);
}
V V::narrow(int dim, int64_t start, int64_t length, Where where) const {
  return tapegrad::narrow(*this, dim, start, length, where);
}
std::vector<V> V::split(int64_t size, int dim, Where where) const {
  return tapegrad::split(*this, size, dim, where);
}
std::vector<V> V::chunk(int64_t chunks, int dim, Where where) const {
  return tapegrad::chunk(*this, chunks, dim, where);
}
V V::contiguous(Where where) const {
  return is_contiguous() ? *this : tapegrad::clone(*this, where);
}
V V::clone(Where where) const { return tapegrad::clone(*this, where); }

V V::operator[](const V& mask_or_index) const { return at(*this, {mask_or_index}); }
V V::index(const std::vector<Subscript>& subscripts, Where where) const {
  return at(*this, subscripts, where);
}
V V::gather(int dim, const V& index, Where where) const {
  return tapegrad::gather(*this, dim, index, where);
}
V V::index_select(int dim, const V& index, Where where) const {
  return tapegrad::index_select(*this, dim, index, where);
}
V V::masked_fill(const V& mask, const Operand& value) const {
  if (value.variable != nullptr)
    return tapegrad::masked_fill(*this, mask, *value.variable, value.where);
  return tapegrad::masked_fill(*this, mask, value.number, value.where);
}

V V::abs(Where where) const { return tapegrad::abs(*this, where); }
V V::neg(Where where) const { return tapegrad::neg(*this, where); }
V V::exp(Where where) const { return tapegrad::exp(*this, where); }
V V::log(Where where) const { return tapegrad::log(*this, where); }
V V::sqrt(Where where) const { return tapegrad::sqrt(*this, where); }
V V::square(Where where) const { return tapegrad::square(*this, where); }
V V::pow(const Operand& exponent) const { return tapegrad::pow({*this, exponent.where}, exponent); }
V V::clamp(const Operand& min, const Operand& max) const {
  return tapegrad::clamp(*this, min, max);
}
V V::relu(Where where) const { return tapegrad::relu(*this, where); }
V V::sigmoid(Where where) const { return tapegrad::sigmoid(*this, where); }
V V::tanh(Where where) const { return tapegrad::tanh(*this, where); }
V V::softmax(int dim, Where where) const { return tapegrad::softmax(*this, dim, where); }
V V::log_softmax(int dim, Where where) const { return tapegrad::log_softmax(*this, dim, where); }
V V::matmul(const V& other, Where where) const { return tapegrad::matmul(*this, other, where); }
V V::mm(const V& other, Where where) const { return tapegrad::mm(*this, other, where); }
V V::dot(const V& other, Where where) const { return tapegrad::dot(*this, other, where); }
V V::add(const Operand& other) const { return tapegrad::add({*this, other.where}, other); }
V V::sub(const Operand& other) const { return tapegrad::sub({*this, other.where}, other); }
V V::mul(const Operand& other) const { return tapegrad::mul({*this, other.where}, other); }
V V::div(const Operand& other) const { return tapegrad::div({*this, other.where}, other); }
V V::eq(const Operand& other) const { return tapegrad::eq({*this, other.where}, other); }
V V::gt(const Operand& other) const { return tapegrad::gt({*this, other.where}, other); }
V V::lt(const Operand& other) const { return tapegrad::lt({*this, other.where}, other); }

V& V::add_(const Operand& other) { return tapegrad::add_(*this, other); }
V& V::sub_(const Operand& other) { return tapegrad::sub_(*this, other); }
V& V::mul_(const Operand& other) { return tapegrad::mul_(*this, other); }
V& V::div_(const Operand& other) { return tapegrad::div_(*this, other); }
V& V::copy_(const V& values, Where where) { return tapegrad::copy_(*this, values, where); }
V& V::fill_(Number value, Where where) { return tapegrad::fill_(*this, value, where); }
V& V::zero_(Where where) { return tapegrad::zero_(*this, where); }

}  // namespace tapegrad
