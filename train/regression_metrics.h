// Metrics of regressions; see Metric in train/metrics.h. Outputs and targets must have the same
// shape.
//
//   R2 r2;
//   fit(model, train, adam, {.loss = ..., .accuracy = false, .metrics = {&r2}});
#pragma once

#include "train/metrics.h"

namespace tapegrad {

/// Mean of |output - target| over all elements.
class MeanAbsoluteError final : public Metric {
 public:
  std::string name() const override { return "mae"; }
  void add(const Variable& output, const Variable& target) override;
  double value() const override;
};

/// Mean of (output - target)^2 over all elements.
class MeanSquaredError final : public Metric {
 public:
  std::string name() const override { return "mse"; }
  void add(const Variable& output, const Variable& target) override;
  double value() const override;
};

/// Coefficient of determination: 1 - sum (target - output)^2 / sum (target - mean)^2, the mean over
/// the columns for several outputs. A column with a constant target counts 1 if all outputs are
/// exact, otherwise 0. NaN for fewer than two examples.
class R2 final : public Metric {
 public:
  std::string name() const override { return "r2"; }
  void add(const Variable& output, const Variable& target) override;
  double value() const override;
};

namespace metrics {
using ::tapegrad::MeanAbsoluteError;
using ::tapegrad::MeanSquaredError;
using ::tapegrad::R2;
using R2Score = R2;
}  // namespace metrics

}  // namespace tapegrad
