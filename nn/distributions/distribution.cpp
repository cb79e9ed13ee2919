#include "nn/distributions/distribution.h"

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "nn/distributions/internal/distribution_parts.h"
#include "ops/create.h"
#include "ops/unary.h"

namespace tapegrad::distributions {

Variable Parameter::as_variable(const TensorOptions& of_number) const {
  return number_ ? full({}, *number_, of_number) : variable_;
}

Distribution::Distribution(std::string_view kind, std::initializer_list<Parameter> parameters)
    : kind_(kind) {
  for (const Parameter& parameter : parameters) {
    if (parameter.is_number() || !parameter.defined()) continue;
    const Variable x = parameter.as_variable({});
    if (!of_number_.device) of_number_.device = x.device();
    if (!of_number_.dtype && is_float(x.dtype())) of_number_.dtype = x.dtype();
  }
}

Variable Distribution::log_prob(const Parameter& value) const {
  const ErrorLine line(value.where());
  return log_prob_at(as_variable(value));
}
Variable Distribution::cdf(const Parameter& value) const {
  const ErrorLine line(value.where());
  return cdf_at(as_variable(value));
}
Variable Distribution::icdf(const Parameter& probability) const {
  const ErrorLine line(probability.where());
  return icdf_at(as_variable(probability));
}
void Distribution::fail_formula(std::string_view function) const {
  fail<ArgumentError>(kind_, ": no formula for ", function, "()");
}
Variable Distribution::cdf_at(const Variable&) const { fail_formula("cdf"); }
Variable Distribution::icdf_at(const Variable&) const { fail_formula("icdf"); }
Variable Distribution::entropy() const { fail_formula("entropy"); }
Variable Distribution::mean() const { fail_formula("mean"); }
Variable Distribution::variance() const { fail_formula("variance"); }
Variable Distribution::mode() const { fail_formula("mode"); }

Variable Distribution::stddev() const { return sqrt(variance()); }
Shape Distribution::value_shape() const { return mean().shape(); }
Shape Distribution::batch_shape() const {
  const Shape all = value_shape();
  Shape batch;
  for (int i = 0; i < all.rank() - event_rank(); ++i) batch.push_back(all[i]);
  return batch;
}
Shape Distribution::event_shape() const {
  const Shape all = value_shape();
  Shape event;
  for (int i = all.rank() - event_rank(); i < all.rank(); ++i) event.push_back(all[i]);
  return event;
}

Variable Distribution::sample(const Shape& sample_shape, RandomGenerator& generator) const {
  const NoGrad no_grad;
  return draw(sample_shape, generator);
}
Variable Distribution::rsample(const Shape& sample_shape, RandomGenerator& generator) const {
  return draw_differentiably(sample_shape, generator);
}
Variable Distribution::draw(const Shape& sample_shape, RandomGenerator& generator) const {
  return draw_differentiably(sample_shape, generator);
}
Variable Distribution::draw_differentiably(const Shape&, RandomGenerator&) const {
  fail<ArgumentError>(kind_,
                      ": rsample: no gradient flows through a sample; use sample() and log_prob()");
}

}  // namespace tapegrad::distributions

namespace tapegrad::distributions {
bool Parameter::is_number() const { return number_.has_value(); }
bool Parameter::defined() const { return is_number() || variable_.defined(); }
OptionalParameter::OptionalParameter() : Parameter(Variable()) {}
OptionalParameter::OptionalParameter(const Parameter& value) : Parameter(value) {}
Distribution::Distribution(std::string_view kind, const Distribution& part)
    : of_number_(part.of_number_), kind_(kind) {}
Variable Distribution::as_variable(const Parameter& value) const {
  return value.as_variable(of_number_);
}
}  // namespace tapegrad::distributions
