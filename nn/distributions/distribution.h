// Base of the distributions, and the types of their parameters. nn/distributions/distributions.h
// includes all distributions.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <type_traits>

#include "core/base/generator.h"
#include "core/tape/variable.h"
#include "ops/binary.h"
#include "ops/create.h"

namespace tapegrad::distributions {

/// A parameter or a value of a distribution: a Variable or a number. A number takes the dtype and
/// the device of the distribution's Variables; the default float dtype if the distribution has
/// numbers only.
class Parameter {
 public:
  template <std::convertible_to<const Variable&> V>
  Parameter(const V& value, Where where = Where::current()) : variable_(value), where_(where) {}
  template <typename T>
  requires std::is_arithmetic_v<T> Parameter(T value, Where where = Where::current())
      : number_(double(value)), where_(where) {}
  bool is_number() const;
  bool defined() const;
  /// Returns the Variable, or the number as a Variable without dimensions.
  Variable as_variable(const TensorOptions& of_number) const;
  /// Returns the line of the program that passed the value, for errors of the distribution.
  Where where() const { return where_; }

 private:
  Variable variable_;
  std::optional<double> number_;
  Where where_;
};

/// A parameter that may be left out: `Bernoulli({.probs = 0.5})`.
struct OptionalParameter : Parameter {
  using Parameter::Parameter;
  OptionalParameter();
  OptionalParameter(const Parameter& value);
};

/// Probabilities, or their logarithms up to a constant (for Bernoulli: the logits log p - log(1 -
/// p)). Exactly one of the two must be set.
struct Odds {
  OptionalParameter probs = {};
  OptionalParameter logits = {};
  Where where = Where::current();  // line of the call, for errors
};

/// Base of the distributions.
class Distribution {
 public:
  virtual ~Distribution() = default;

  /// Returns the log of the density, or of the probability, at a value that broadcasts to the
  /// batch: -inf at a value that cannot occur, NaN at NaN.
  Variable log_prob(const Parameter& value) const;
  /// Return the probability of values up to `value`, and its inverse. cdf() is 0 below all values;
  /// icdf() is NaN outside of [0, 1]. Throw ArgumentError if there is no formula.
  Variable cdf(const Parameter& value) const;
  Variable icdf(const Parameter& probability) const;
  /// Throw ArgumentError if there is no formula.
  virtual Variable entropy() const;
  virtual Variable mean() const;
  virtual Variable variance() const;
  /// The value of the highest density or probability; NaN if there is none.
  virtual Variable mode() const;
  /// The square root of the variance; of some distributions also where the variance underflows.
  virtual Variable stddev() const;
  /// Number of dimensions of one value: 0 for numbers, 1 for vectors.
  virtual int event_rank() const { return 0; }
  /// Return the shape of the batch of distributions, and of one value.
  Shape batch_shape() const;
  Shape event_shape() const;
  /// Returns random values of shape [sample_shape, batch, event] without a gradient.
  Variable sample(const Shape& sample_shape = {},
                  RandomGenerator& generator = default_generator()) const;
  /// Returns random values through which gradients flow to the parameters. Throws ArgumentError for
  /// a distribution of integers; use log_prob(sample()) for these. Beta and Dirichlet compute the
  /// gradient by implicit differentiation (Figurnov et al. 2018).
  Variable rsample(const Shape& sample_shape = {},
                   RandomGenerator& generator = default_generator()) const;

  friend class TransformedDistribution;

 protected:
  /// `kind` must be a string literal.
  explicit Distribution(std::string_view kind, std::initializer_list<Parameter> parameters = {});
  /// Gives numbers the dtype and the device that they have in `part`.
  Distribution(std::string_view kind, const Distribution& part);
  std::string_view kind() const { return kind_; }
  Variable as_variable(const Parameter& value) const;
  /// Returns the shape of a single sample: [batch, event].
  virtual Shape value_shape() const;

  TensorOptions of_number_;  // dtype and device of numbers

 private:
  virtual Variable log_prob_at(const Variable& value) const = 0;
  virtual Variable cdf_at(const Variable& value) const;
  virtual Variable icdf_at(const Variable& probability) const;
  /// Draws a sample. Called without recording. Calls draw_differentiably() unless overridden.
  virtual Variable draw(const Shape& sample_shape, RandomGenerator& generator) const;
  virtual Variable draw_differentiably(const Shape& sample_shape, RandomGenerator& generator) const;

  [[noreturn]] void fail_formula(std::string_view function) const;

  std::string_view kind_;
};

}  // namespace tapegrad::distributions
