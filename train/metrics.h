// Measures of a model's quality.
#pragma once

#include <iosfwd>
#include <limits>
#include <string>
#include <vector>

#include "core/base/output.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// Stands for a value that was not computed.
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Weighted mean of the added numbers. The sums are float64 on the device, so add() does not wait
/// for the device; value() does.
class RunningMean {
 public:
  /// Adds a variable of one element.
  void add(const Variable& value, double weight = 1.0);
  double value() const;  // NaN if nothing was added
  double weight() const { return weight_; }

 private:
  Variable sum_;
  double weight_ = 0;
};

/// Returns the class with the largest output, [N] int64, for an output [N, C]; for an output [N] or
/// [N, 1], whether it is above 0.5.
Variable predicted_classes(const Variable& output);
/// Returns class ids [N] int64 of a target: ids [N], or one-hot rows or probabilities [N, C].
Variable target_classes(const Variable& target);
/// Returns the number of correct predictions, one int64 element. Throws ShapeError unless output
/// and target have N rows.
Variable count_correct(const Variable& output, const Variable& target);

/// Prints the first 16 true and predicted labels and `accuracy rate: 87.64 % (8764/10000)`.
///
///   test
///     true labels:      9  2  1  1  6  1  4  6  5  7  4  5  7  3  4  1
///     predicted labels: 9  2  1  1  6  1  4  6  5  7  4  5  5  3  4  1
///     accuracy rate: 87.64 % (8764/10000)
void print_predictions(const std::string& title, const std::vector<int64_t>& labels,
                       const std::vector<int64_t>& predictions,
                       std::ostream& out = standard_output());
/// Prints the same lines for outputs [N, C] and targets.
void print_predictions(const std::string& title, const Variable& targets, const Variable& outputs,
                       std::ostream& out = standard_output());

}  // namespace tapegrad
