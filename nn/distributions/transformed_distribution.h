// Distributions made of other distributions, as in torch.distributions: TransformedDistribution,
// Independent and MixtureSameFamily.
//
//   const distributions::Normal base(zeros({2}), ones({2}));
//   const distributions::TransformedDistribution squashed(
//       base, {distributions::TanhTransform(), distributions::AffineTransform(1.0, 2.0)});
//   Variable action = squashed.rsample({64});
//   Variable log_prob = squashed.log_prob(action);
#pragma once

#include <concepts>
#include <memory>

#include "nn/distributions/categorical_distributions.h"
#include "nn/distributions/distribution.h"
#include "nn/distributions/transforms.h"

namespace tapegrad::distributions {

/// The distribution of transformed values of `base`. mean(), variance() and entropy() throw
/// ArgumentError.
class TransformedDistribution : public Distribution {
 public:
  template <std::derived_from<Distribution> D>
  TransformedDistribution(const D& base, const Transforms& transforms)
      : Distribution("TransformedDistribution", base),
        base_(std::make_shared<D>(base)),
        transform_(transforms) {}
  const Distribution& base_dist() const { return *base_; }
  int event_rank() const override;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable cdf_at(const Variable& value) const override;
  Variable icdf_at(const Variable& probability) const override;
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
  Shape value_shape() const override;

  std::shared_ptr<const Distribution> base_;
  ComposeTransform transform_;
};

/// Distribution that treats the last dimensions of the batch as dimensions of one value, whose
/// elements are independent: log_prob() sums over them.
class Independent final : public Distribution {
 public:
  template <std::derived_from<Distribution> D>
  Independent(const D& base, int reinterpreted_batch_ndims, Where where = Where::current())
      : Distribution("Independent", base),
        base_(std::make_shared<D>(base)),
        ndims_(reinterpreted_batch_ndims) {
    check(where);
  }
  const Distribution& base_dist() const { return *base_; }
  Variable entropy() const override;
  Variable mean() const override;
  Variable variance() const override;
  Variable mode() const override;
  int event_rank() const override;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
  Variable draw_differentiably(const Shape& sample_shape,
                               RandomGenerator& generator) const override;
  void check(Where where) const;

  std::shared_ptr<const Distribution> base_;
  int ndims_;
};

/// A mixture of the components along the last dimension of a batch of distributions, with the
/// weights of a Categorical. entropy() and rsample() throw ArgumentError.
class MixtureSameFamily final : public Distribution {
 public:
  template <std::derived_from<Distribution> D>
  MixtureSameFamily(const Categorical& mixture, const D& components)
      : Distribution("MixtureSameFamily", components),
        mixture_(mixture),
        components_(std::make_shared<D>(components)) {}
  Variable mean() const override;
  Variable variance() const override;
  int event_rank() const override;

 private:
  Variable log_prob_at(const Variable& value) const override;
  Variable cdf_at(const Variable& value) const override;
  Variable draw(const Shape& sample_shape, RandomGenerator& generator) const override;
  /// Inserts the dimension of the components.
  Variable spread(const Variable& value) const;
  Variable weights() const;

  Categorical mixture_;
  std::shared_ptr<const Distribution> components_;
};

}  // namespace tapegrad::distributions
