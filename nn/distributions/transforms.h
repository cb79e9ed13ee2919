// Differentiable maps of the values of a TransformedDistribution: elementwise ones, and their
// compositions. vector_transforms.h has maps of vectors and matrices.
#pragma once

#include <concepts>
#include <initializer_list>
#include <memory>
#include <vector>

#include "nn/distributions/distribution.h"

namespace tapegrad::distributions {

/// A differentiable map.
class Transform {
 public:
  virtual ~Transform() = default;
  virtual Variable operator()(const Variable& x) const = 0;
  virtual Variable inv(const Variable& y) const = 0;
  /// Returns log |det dy / dx| of each value. Throws ArgumentError if the map has no density.
  virtual Variable log_abs_det_jacobian(const Variable& x, const Variable& y) const;
  /// Return the number of dimensions of one value x, and of one y: 0 for elementwise maps.
  virtual int domain_rank() const { return 0; }
  virtual int codomain_rank() const { return domain_rank(); }
  /// Returns 1 if y increases with x, or -1 if y decreases.
  virtual Variable sign() const;
};

/// Computes y = exp(x).
struct ExpTransform final : Transform {
  Variable operator()(const Variable& x) const override;
  Variable inv(const Variable& y) const override;
  Variable log_abs_det_jacobian(const Variable& x, const Variable& y) const override;
};
/// Computes y = loc + scale x, for a scale of either sign.
struct AffineTransform final : Transform {
  Parameter loc, scale;
  AffineTransform(const Parameter& loc, const Parameter& scale);
  Variable operator()(const Variable& x) const override;
  Variable inv(const Variable& y) const override;
  Variable log_abs_det_jacobian(const Variable& x, const Variable& y) const override;
  Variable sign() const override;
};
/// Computes y = 1 / (1 + exp(-x)).
struct SigmoidTransform final : Transform {
  Variable operator()(const Variable& x) const override;
  Variable inv(const Variable& y) const override;
  Variable log_abs_det_jacobian(const Variable& x, const Variable& y) const override;
};
/// Computes y = tanh(x).
struct TanhTransform final : Transform {
  Variable operator()(const Variable& x) const override;
  Variable inv(const Variable& y) const override;
  Variable log_abs_det_jacobian(const Variable& x, const Variable& y) const override;
};
/// Computes y = log(1 + exp(x)).
struct SoftplusTransform final : Transform {
  Variable operator()(const Variable& x) const override;
  Variable inv(const Variable& y) const override;
  Variable log_abs_det_jacobian(const Variable& x, const Variable& y) const override;
};
/// Computes y = x^exponent, for x > 0.
struct PowerTransform final : Transform {
  Parameter exponent;
  explicit PowerTransform(const Parameter& exponent);
  Variable operator()(const Variable& x) const override;
  Variable inv(const Variable& y) const override;
  Variable log_abs_det_jacobian(const Variable& x, const Variable& y) const override;
  Variable sign() const override;
};

/// Transforms in the order in which they are applied.
class Transforms {
 public:
  /// Any Transform by value.
  struct Any {
    template <std::derived_from<Transform> T>
    Any(const T& value) : transform(std::make_shared<T>(value)) {}
    std::shared_ptr<const Transform> transform;
  };
  Transforms(std::initializer_list<Any> list);
  Transforms(const std::vector<Any>& list);
  template <std::derived_from<Transform> T>
  Transforms(const T& transform) : list_{Any(transform)} {}
  const std::vector<Any>& list() const { return list_; }

 private:
  std::vector<Any> list_;
};
/// Applies transforms one after another, as one transform.
class ComposeTransform final : public Transform {
 public:
  explicit ComposeTransform(const Transforms& parts);
  Variable operator()(const Variable& x) const override;
  Variable inv(const Variable& y) const override;
  Variable log_abs_det_jacobian(const Variable& x, const Variable& y) const override;
  Variable sign() const override;
  int domain_rank() const override;
  int codomain_rank() const override;

 private:
  Transforms parts_;
};

}  // namespace tapegrad::distributions
