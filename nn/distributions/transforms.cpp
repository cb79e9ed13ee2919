#include "nn/distributions/transforms.h"

#include <algorithm>
#include <cmath>
#include <ranges>

#include "core/base/error.h"
#include "nn/distributions/internal/distribution_parts.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/special.h"
#include "ops/unary.h"

namespace tapegrad::distributions {
namespace {

/// Returns a parameter; a number becomes a Variable of the dtype and device of x.
Variable beside(const Parameter& parameter, const Variable& x) {
  return parameter.as_variable(like(x));
}

}  // namespace

Variable Transform::sign() const { return ones({}); }
Variable Transform::log_abs_det_jacobian(const Variable&, const Variable&) const {
  fail<ArgumentError>("log_abs_det_jacobian: the transform has no density");
}

Variable ExpTransform::operator()(const Variable& x) const { return exp(x); }
Variable ExpTransform::inv(const Variable& y) const { return log(y); }
Variable ExpTransform::log_abs_det_jacobian(const Variable& x, const Variable&) const { return x; }

AffineTransform::AffineTransform(const Parameter& shift, const Parameter& factor)
    : loc(shift), scale(factor) {}
Variable AffineTransform::operator()(const Variable& x) const {
  return beside(loc, x) + beside(scale, x) * x;
}
Variable AffineTransform::inv(const Variable& y) const {
  return (y - beside(loc, y)) / beside(scale, y);
}
Variable AffineTransform::log_abs_det_jacobian(const Variable& x, const Variable&) const {
  return log(abs(beside(scale, x) + zeros_like(x.detach())));  // in the dtype of x
}
Variable AffineTransform::sign() const { return tapegrad::sign(scale.as_variable({})); }

Variable SigmoidTransform::operator()(const Variable& x) const { return sigmoid(x); }
Variable SigmoidTransform::inv(const Variable& y) const { return log(y) - log1p(-y); }
Variable SigmoidTransform::log_abs_det_jacobian(const Variable& x, const Variable&) const {
  return -softplus(-x) - softplus(x);
}

Variable TanhTransform::operator()(const Variable& x) const { return tanh(x); }
Variable TanhTransform::inv(const Variable& y) const { return atanh(y); }
Variable TanhTransform::log_abs_det_jacobian(const Variable& x, const Variable&) const {
  return 2.0 * (std::log(2.0) - x - softplus(-2.0 * x));
}

Variable SoftplusTransform::operator()(const Variable& x) const { return softplus(x); }
Variable SoftplusTransform::inv(const Variable& y) const { return log(-expm1(-y)) + y; }
Variable SoftplusTransform::log_abs_det_jacobian(const Variable& x, const Variable&) const {
  return -softplus(-x);
}

PowerTransform::PowerTransform(const Parameter& power) : exponent(power) {}
Variable PowerTransform::operator()(const Variable& x) const { return pow(x, beside(exponent, x)); }
Variable PowerTransform::inv(const Variable& y) const { return pow(y, 1.0 / beside(exponent, y)); }
Variable PowerTransform::log_abs_det_jacobian(const Variable& x, const Variable& y) const {
  return log(abs(beside(exponent, y) * y / x));
}
Variable PowerTransform::sign() const { return tapegrad::sign(exponent.as_variable({})); }

Variable ComposeTransform::operator()(const Variable& x) const {
  Variable y = x;
  for (const auto& part : parts_.list()) y = (*part.transform)(y);
  return y;
}
Variable ComposeTransform::inv(const Variable& y) const {
  Variable x = y;
  for (const auto& part : std::views::reverse(parts_.list())) x = part.transform->inv(x);
  return x;
}
Variable ComposeTransform::log_abs_det_jacobian(const Variable& x, const Variable&) const {
  int rank = domain_rank();  // of a value before each part
  Variable at = x, total;
  for (const auto& [part] : parts_.list()) {
    const Variable y = (*part)(at);
    const Variable added = sum_last(part->log_abs_det_jacobian(at, y), rank - part->domain_rank());
    total = total.defined() ? total + added : added;
    rank += part->codomain_rank() - part->domain_rank();
    at = y;
  }
  return total.defined() ? total : zeros_like(x.detach());
}
int ComposeTransform::domain_rank() const {
  int rank = 0;
  for (const auto& [part] : std::views::reverse(parts_.list()))
    rank = part->domain_rank() + std::max(rank - part->codomain_rank(), 0);
  return rank;
}
int ComposeTransform::codomain_rank() const {
  int rank = 0;
  for (const auto& [part] : parts_.list())
    rank = part->codomain_rank() + std::max(rank - part->domain_rank(), 0);
  return rank;
}
Variable ComposeTransform::sign() const {
  Variable product = ones({});
  for (const auto& part : parts_.list()) product = product * part.transform->sign();
  return product;
}

}  // namespace tapegrad::distributions

namespace tapegrad::distributions {
Transforms::Transforms(std::initializer_list<Any> list) : list_(list) {}
Transforms::Transforms(const std::vector<Any>& list) : list_(list) {}
ComposeTransform::ComposeTransform(const Transforms& parts) : parts_(parts) {}
}  // namespace tapegrad::distributions
