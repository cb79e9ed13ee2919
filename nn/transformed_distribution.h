// Distributions made of other distributions, as in torch.distributions: TransformedDistribution,
// Independent and MixtureSameFamily.
//
//   const distributions::Normal base(zeros({2}), ones({2}));
//   const distributions::TransformedDistribution squashed(
//       base, {distributions::TanhTransform(), distributions::AffineTransform(1.0, 2.0)});
//   Variable action = squashed.rsample({64});
//   Variable log_prob = squashed.log_prob(action);
#pragma once

#include <initializer_list>
#include <memory>
#include <vector>

#include "nn/distributions.h"

namespace tapegrad::distributions {

/// A differentiable elementwise map from one interval to another.
class Transform {
 public:
  virtual ~Transform() = default;
  virtual Variable operator()(const Variable& x) const = 0;
  virtual Variable inv(const Variable& y) const = 0;
  /// Returns log |dy / dx| of each element.
  virtual Variable log_abs_det_jacobian(const Variable& x, const Variable& y) const = 0;
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
  Variable loc, scale;
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
  Variable exponent;
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
  Transforms(std::initializer_list<Any> list) : list_(list) {}
  Transforms(const std::vector<Any>& list) : list_(list) {}
  template <std::derived_from<Transform> T>
  Transforms(const T& transform) : list_{Any(transform)} {}
  const std::vector<Any>& list() const { return list_; }

 private:
  std::vector<Any> list_;
};
/// Applies transforms one after another, as one transform.
class ComposeTransform final : public Transform {
 public:
  explicit ComposeTransform(const Transforms& parts) : parts_(parts) {}
  Variable operator()(const Variable& x) const override;
  Variable inv(const Variable& y) const override;
  Variable log_abs_det_jacobian(const Variable& x, const Variable& y) const override;
  Variable sign() const override;

 private:
  Transforms parts_;
};

/// The distribution of transformed values of `base`. mean(), variance() and entropy() throw
/// ArgumentError.
class TransformedDistribution : public Distribution {
 public:
  template <std::derived_from<Distribution> D>
  TransformedDistribution(const D& base, const Transforms& transforms)
      : Distribution("TransformedDistribution"),
        base_(std::make_shared<D>(base)),
        transform_(transforms) {}
  const Distribution& base_dist() const { return *base_; }
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable cdf(const Variable& value) const override;
  Variable icdf(const Variable& probability) const override;
  int event_rank() const override { return base_->event_rank(); }
  Variable rsample(const Shape& sample_shape = {},
                   RandomGenerator& generator = default_generator()) const override;

 private:
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
  Shape value_shape() const override { return base_->value_shape(); }

  std::shared_ptr<const Distribution> base_;
  ComposeTransform transform_;
};

/// Distribution that treats the last dimensions of the batch as dimensions of one value, whose
/// elements are independent: log_prob() sums over them.
class Independent final : public Distribution {
 public:
  template <std::derived_from<Distribution> D>
  Independent(const D& base, int reinterpreted_batch_ndims, Where where = Where::current())
      : Distribution("Independent"),
        base_(std::make_shared<D>(base)),
        ndims_(reinterpreted_batch_ndims) {
    check(where);
  }
  const Distribution& base_dist() const { return *base_; }
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;
  Variable mean() const override { return base_->mean(); }
  Variable variance() const override { return base_->variance(); }
  int event_rank() const override { return base_->event_rank() + ndims_; }
  Variable rsample(const Shape& sample_shape = {},
                   RandomGenerator& generator = default_generator()) const override;

 private:
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
  void check(Where where) const;

  std::shared_ptr<const Distribution> base_;
  int ndims_;
};

/// A mixture of the components along the last dimension of a batch of distributions, with the
/// weights of a Categorical. rsample() throws ArgumentError.
class MixtureSameFamily final : public Distribution {
 public:
  template <std::derived_from<Distribution> D>
  MixtureSameFamily(const Categorical& mixture, const D& components)
      : Distribution("MixtureSameFamily"),
        mixture_(mixture),
        components_(std::make_shared<D>(components)) {}
  Variable log_prob(const Variable& value) const override;
  Variable entropy() const override;  // throws ArgumentError
  Variable mean() const override;
  Variable variance() const override;
  Variable cdf(const Variable& value) const override;
  int event_rank() const override { return components_->event_rank(); }

 private:
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
  /// Inserts the dimension of the components.
  Variable spread(const Variable& value) const { return value.unsqueeze(-1 - event_rank()); }
  Variable weights() const;

  Categorical mixture_;
  std::shared_ptr<const Distribution> components_;
};

}  // namespace tapegrad::distributions
