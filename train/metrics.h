// Measures of a model's quality: running means, the base of streaming metrics, and predicted
// classes. The metrics themselves are in train/classification_metrics.h and
// train/regression_metrics.h.
#pragma once

#include <concepts>
#include <iosfwd>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/output.h"
#include "core/base/tensor_map.h"
#include "core/tape/variable.h"

namespace tapegrad {

/// Value of a measure that was not computed.
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Weighted mean of the added numbers, summed in float64. The sum of numbers on a GPU is on the
/// GPU, so add() does not wait for it; value() does.
class RunningMean {
 public:
  /// Adds a variable of one element.
  void add(const Variable& value, double weight = 1.0);
  double value() const;  // NaN if nothing was added
  double weight() const { return weight_; }

  TensorMap state_dict() const;
  void load_state_dict(const TensorMap& state);

 private:
  Variable sum_;        // of numbers on a GPU; empty if there are none
  double cpu_sum_ = 0;  // of numbers on the CPU
  double weight_ = 0;
};

/// A measure of all examples of a pass over the data, computed batch by batch:
///
///   F1 f1(10);
///   for (auto& [x, y] : batches) f1.add(model(x), y);
///   std::cout << f1.name() << ' ' << f1.value() << '\n';
///
/// The result does not depend on the division into batches, apart from rounding.
class Metric {
 public:
  virtual ~Metric() = default;

  /// Returns the name for reports and tables, such as "f1".
  virtual std::string name() const = 0;
  /// Adds a batch. Not recorded. The totals are on the batch's device, and add() does not wait for
  /// the device.
  virtual void add(const Variable& output, const Variable& target) = 0;
  /// Returns the measure of all batches since reset(); NaN if it is not defined. Waits for the
  /// device.
  virtual double value() const = 0;
  void reset();
  // The names of torchmetrics.
  void update(const Variable& output, const Variable& target, Where where = Where::current());
  double compute() const;

  /// Returns the totals, from which another process can continue.
  TensorMap state_dict() const;
  void load_state_dict(const TensorMap& state);

 protected:
  /// Adds `part` to a total.
  void accumulate(const std::string& total, const Variable& part);
  /// Sets a total.
  void set(const std::string& total, const Variable& value);
  /// Appends `part` [n, ...] to the parts added before.
  void append(const std::string& total, const Variable& part);
  /// Returns a total; the parts of append() are joined in dimension 0. Empty if there is none.
  Variable total(const std::string& name) const;
  /// Returns a total of one element; 0 if there is none.
  double number(const std::string& name) const;

 private:
  std::map<std::string, std::vector<Variable>> totals_;
};

/// Metric of a pass, in a list such as `{f1, &auc, R2(), "mae"}`: a metric of the program, which
/// must outlive the list, a metric that the list owns, or the name of one: "accuracy" (or "acc"),
/// "auc", "mae" (or "mean_absolute_error"), "mse" (or "mean_squared_error") or "r2".
class MetricRef {
 public:
  MetricRef(Metric* metric);  // throws ArgumentError for a null pointer
  MetricRef(Metric& metric);
  template <std::derived_from<Metric> M>
  MetricRef(M&& metric) : metric_(std::make_shared<M>(std::move(metric))) {}
  /// Throws ArgumentError, which lists the names, for another name.
  template <std::convertible_to<std::string_view> Name>
  MetricRef(const Name& name, Where where = Where::current()) : metric_(named(name, where)) {}

  Metric* operator->() const;
  Metric& operator*() const { return *metric_; }
  bool is_owned() const;

 private:
  static std::shared_ptr<Metric> named(std::string_view name, Where where);

  std::shared_ptr<Metric> metric_;  // without an owner for a metric of the program
};

/// Returns the class with the largest output, [N] int64, for an output [N, C]; for floats [N] or
/// [N, 1], whether the output is above 0.5, or above 0 if one of them is outside of [0, 1], since
/// they are logits then. Integers [N] are the classes.
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
