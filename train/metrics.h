// Numbers that say how well a model does.
#pragma once

#include <iosfwd>
#include <limits>
#include <string>
#include <vector>

#include "core/base/output.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// What was not computed.
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// The mean of what was added, each number with its weight. Sums are kept on the device in float64,
/// so that adding waits for nothing; reading does.
class RunningMean {
 public:
  /// A variable of one element.
  void add(const Variable& value, double weight = 1.0);
  double value() const;  // NaN before anything was added
  double weight() const { return weight_; }

 private:
  Variable sum_;
  double weight_ = 0;
};

/// The class that an output [N, C] rates highest, [N] int64; of an output [N] or [N, 1] whether it
/// is above 0.5.
Variable predicted_classes(const Variable& output);
/// The class ids [N] int64 that a target means: ids [N], one-hot rows or probabilities [N, C].
Variable target_classes(const Variable& target);
/// How many predictions are right, one int64 element. ShapeError unless both have N classes.
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
/// The same from outputs [N, C] and targets.
void print_predictions(const std::string& title, const Variable& targets, const Variable& outputs,
                       std::ostream& out = standard_output());

}  // namespace tapegrad
