#include "ops/aliases.h"

#include <ostream>
#include <string>

#include "core/base/output.h"

namespace tapegrad {

void detail::print_line(const std::string& text) { standard_output() << text << std::endl; }

Variable stddev(const Variable& x, VarOptions options, Where where) {
  return std(x, options, where);
}
Variable stop_gradient(const Variable& x) { return x.detach(); }
Variable absolute(Variable x, Where where) { return abs(std::move(x), where); }
Variable negative(Variable x, Where where) { return neg(std::move(x), where); }
Variable log_sigmoid(Variable x, Where where) { return logsigmoid(std::move(x), where); }
Variable fix(Variable x, Where where) { return trunc(std::move(x), where); }
Variable sgn(Variable x, Where where) { return sign(std::move(x), where); }
Variable arcsin(Variable x, Where where) { return asin(std::move(x), where); }
Variable arccos(Variable x, Where where) { return acos(std::move(x), where); }
Variable arctan(Variable x, Where where) { return atan(std::move(x), where); }
Variable arcsinh(Variable x, Where where) { return asinh(std::move(x), where); }
Variable arccosh(Variable x, Where where) { return acosh(std::move(x), where); }
Variable arctanh(Variable x, Where where) { return atanh(std::move(x), where); }
Variable inverse(const Variable& x, Where where) { return linalg::inv(x, where); }
Variable det(const Variable& x, Where where) { return linalg::det(x, where); }
Variable matrix_exp(const Variable& x, Where where) { return linalg::matrix_exp(x, where); }
Variable ravel(const Variable& x, Where where) { return flatten(x, 0, -1, where); }
Variable fliplr(const Variable& x, Where where) { return flip(x, 1, where); }
Variable flipud(const Variable& x, Where where) { return flip(x, 0, where); }
Variable subtract(Operand a, Operand b) { return sub(std::move(a), std::move(b)); }
Variable multiply(Operand a, Operand b) { return mul(std::move(a), std::move(b)); }
Variable divide(Operand a, Operand b) { return div(std::move(a), std::move(b)); }
Variable true_divide(Operand a, Operand b) { return div(std::move(a), std::move(b)); }
Variable power(Operand a, Operand b) { return pow(std::move(a), std::move(b)); }
Variable arctan2(Operand a, Operand b) { return atan2(std::move(a), std::move(b)); }
Variable mod(Operand a, Operand b) { return remainder(std::move(a), std::move(b)); }
Variable greater(const Operand& a, const Operand& b) { return gt(a, b); }
Variable greater_equal(const Operand& a, const Operand& b) { return ge(a, b); }
Variable less(const Operand& a, const Operand& b) { return lt(a, b); }
Variable less_equal(const Operand& a, const Operand& b) { return le(a, b); }
Variable not_equal(const Operand& a, const Operand& b) { return ne(a, b); }
Variable rsub(Operand a, Operand b) { return sub(std::move(b), std::move(a)); }
Variable vdot(const Variable& a, const Variable& b, Where where) { return dot(a, b, where); }
Variable ger(const Variable& a, const Variable& b, Where where) { return outer(a, b, where); }
Variable clip(Variable x, const Operand& min, const Operand& max) {
  return clamp(std::move(x), min, max);
}
Variable clip(Variable x, ClampOptions options, Where where) {
  return clamp(std::move(x), options, where);
}
Variable expand_dims(const Variable& x, int dim, Where where) { return unsqueeze(x, dim, where); }
Variable broadcast_to(const Variable& x, const Shape& shape, Where where) {
  return expand(x, shape, where);
}
Variable expand_as(const Variable& x, const Variable& other, Where where) {
  return expand(x, other.shape(), where);
}
Variable view_as(const Variable& x, const Variable& other, Where where) {
  return view(x, other.shape(), where);
}
Variable reshape_as(const Variable& x, const Variable& other, Where where) {
  return reshape(x, other.shape(), where);
}
Variable swapaxes(const Variable& x, int dim0, int dim1, Where where) {
  return transpose(x, dim0, dim1, where);
}
Variable swapdims(const Variable& x, int dim0, int dim1, Where where) {
  return transpose(x, dim0, dim1, where);
}
Variable moveaxis(const Variable& x, const Dims& source, const Dims& destination, Where where) {
  return movedim(x, source, destination, where);
}
Variable concat(VariableList inputs, int dim, Where where) { return cat(inputs, dim, where); }
Variable concatenate(VariableList inputs, int dim, Where where) { return cat(inputs, dim, where); }
Variable row_stack(VariableList inputs, Where where) { return vstack(inputs, where); }
std::vector<Variable> vsplit(const Variable& x, const Sections& sections, Where where) {
  return tensor_split(x, sections, 0, where);
}
std::vector<Variable> hsplit(const Variable& x, const Sections& sections, Where where) {
  return tensor_split(x, sections, x.rank() == 1 ? 0 : 1, where);
}
std::vector<Variable> dsplit(const Variable& x, const Sections& sections, Where where) {
  return tensor_split(x, sections, 2, where);
}
Variable transpose(const Variable& x, Where where) { return t(x, where); }
Variable argwhere(const Variable& x, Where where) { return nonzero(x, where); }
Variable diagflat(const Variable& x, int64_t offset, Where where) {
  return diag(flatten(x, 0, -1, where), offset, where);
}
Variable bucketize(const Variable& x, const Variable& boundaries, bool right, Where where) {
  return searchsorted(boundaries, x, right, where);
}
Variable trapz(const Variable& y, double dx, int dim, Where where) {
  return trapezoid(y, dx, dim, where);
}
Variable trapz(const Variable& y, const Variable& x, int dim, Where where) {
  return trapezoid(y, x, dim, where);
}
Variable msort(const Variable& x, Where where) { return sort(x, 0, false, where).values; }
Variable matrix_power(const Variable& x, int64_t n, Where where) {
  return linalg::matrix_power(x, n, where);
}
Variable pinverse(const Variable& x, Where where) { return linalg::pinv(x, {}, where); }
Variable logdet(const Variable& x, Where where) {
  const linalg::Slogdet y = linalg::slogdet(x, where);
  return log(y.sign, where) + y.logabsdet;
}
Variable chain_matmul(VariableList factors, Where where) {
  return linalg::multi_dot(factors, where);
}
void set_seed(uint64_t seed) { manual_seed(seed); }
void set_random_seed(uint64_t seed) { manual_seed(seed); }
Variable scaled_dot_product_attention(const Variable& query, const Variable& key,
                                      const Variable& value, const Variable& attn_mask,
                                      double dropout_p, bool is_causal, std::optional<double> scale,
                                      bool enable_gqa, Where where) {
  return scaled_dot_product_attention(
      query, key, value, AttentionOptions{attn_mask, dropout_p, is_causal, scale, enable_gqa},
      default_generator(), where);
}
Variable normalize(const Variable& x, NormalizeOptions options, Where where) {
  return normalize(x, options.p, options.dim, options.eps, where);
}
}  // namespace tapegrad

namespace tapegrad::linalg {
Variable norm(const Variable& x, Where where) { return tapegrad::norm(x, 2.0, where); }
Variable norm(const Variable& x, double ord, const Dims& dims, bool keepdim, Where where) {
  return dims.size() == 2 ? matrix_norm(x, ord, dims, keepdim, where)
                          : vector_norm(x, ord, dims, keepdim, where);
}
Variable norm(const Variable& x, double ord, Where where) {
  return x.rank() == 2 ? matrix_norm(x, ord, {-2, -1}, false, where)
                       : vector_norm(x, ord, {}, false, where);
}
}  // namespace tapegrad::linalg

namespace tapegrad {
int64_t numel(const Variable& x) { return x.numel(); }
Variable scalar_tensor(Number value, TensorOptions options) {
  options.dtype = options.dtype.value_or(default_dtype());
  return scalar(value, options);
}
Variable expit(const Variable& x, Where where) { return sigmoid(x, where); }
Variable gammaln(const Variable& x, Where where) { return lgamma(x, where); }
Variable psi(const Variable& x, Where where) { return digamma(x, where); }
}  // namespace tapegrad

namespace tapegrad::special {
Variable multigammaln(const Variable& x, int64_t p, Where where) { return mvlgamma(x, p, where); }
Variable gammainc(const Operand& a, const Operand& x) { return igamma(a, x); }
Variable gammaincc(const Operand& a, const Operand& x) { return igammac(a, x); }
Variable modified_bessel_i0(const Variable& x, Where where) { return i0(x, where); }
Variable modified_bessel_i1(const Variable& x, Where where) { return i1(x, where); }
Variable modified_bessel_k0(const Variable& x, Where where) { return bessel_k0(x, where); }
Variable modified_bessel_k1(const Variable& x, Where where) { return bessel_k1(x, where); }
Variable scaled_modified_bessel_k0(const Variable& x, Where where) { return bessel_k0e(x, where); }
Variable scaled_modified_bessel_k1(const Variable& x, Where where) { return bessel_k1e(x, where); }
}  // namespace tapegrad::special

namespace tapegrad {
Variable reduce_sum(const Variable& x, Where where) { return sum(x, where); }
Variable reduce_sum(const Variable& x, const Dims& axis, bool keepdims, Where where) {
  return sum(x, axis, keepdims, where);
}
Variable reduce_mean(const Variable& x, Where where) { return mean(x, where); }
Variable reduce_mean(const Variable& x, const Dims& axis, bool keepdims, Where where) {
  return mean(x, axis, keepdims, where);
}
Variable reduce_max(const Variable& x, Where where) { return amax(x, where); }
Variable reduce_max(const Variable& x, const Dims& axis, bool keepdims, Where where) {
  return amax(x, axis, keepdims, where);
}
Variable reduce_min(const Variable& x, Where where) { return amin(x, where); }
Variable reduce_min(const Variable& x, const Dims& axis, bool keepdims, Where where) {
  return amin(x, axis, keepdims, where);
}
Variable average(const Variable& x, Where where) { return mean(x, where); }
Variable percentile(const Variable& x, double q, Where where) {
  return quantile(x, q / 100, {}, where);
}
Variable digitize(const Variable& x, const Variable& bins, Where where) {
  return bucketize(x, bins, /*right=*/true, where);
}
Variable to_categorical(const Variable& classes, int64_t num_classes, Where where) {
  return one_hot(classes, num_classes, where).to(default_dtype());
}
Variable normal(double mean, double std, const Shape& shape, Where where) {
  Variable x = empty(shape);
  return normal_(x, mean, std, default_generator(), where);
}
Variable random_normal(const Shape& shape) { return randn(shape); }
Variable random_uniform(const Shape& shape) { return rand(shape); }
Variable linalg::vander(const Variable& x, std::optional<int64_t> n, Where where) {
  return tapegrad::vander(x, n, true, where);
}

}  // namespace tapegrad
