// Metrics of classifiers; see Metric in train/metrics.h.
//
//   F1 f1(10);
//   TopK top5(5);
//   fit(model, train, adam, {.validation = &test, .metrics = {&f1, &top5}});
//   evaluate(model, test, {.metrics = {&f1}}).more;               // {{"f1", 0.87}}
//
// An output [N, C] has a score per class, and the prediction is the class with the largest one. An
// output [N] or [N, 1] of floats is the probability of class 1; integers [N] are predicted classes.
// Targets are ids [N], one-hot rows or probabilities [N, C]. Definitions and names are
// scikit-learn's; a quotient 0 / 0 counts as 0.
#pragma once

#include "core/base/choice.h"
#include "train/metrics.h"

namespace tapegrad {

/// torchmetrics' arguments: Accuracy({.task = "multiclass", .num_classes = 3}).
struct AccuracyOptions {
  ByName by_name = {};
  std::string task = "";    // "multiclass" or "binary"; empty: either
  int64_t num_classes = 0;  // not needed
};
/// Share of correct predictions.
class Accuracy final : public Metric {
 public:
  Accuracy() = default;
  /// Throws ArgumentError for another task.
  explicit Accuracy(const AccuracyOptions& options);
  std::string name() const override { return "accuracy"; }
  void add(const Variable& output, const Variable& target) override;
  double value() const override;
};

/// Share of examples for which fewer than k classes have a larger score than the true class.
class TopK final : public Metric {
 public:
  /// Throws ArgumentError for k < 1.
  explicit TopK(int64_t k);
  std::string name() const override;
  /// Throws ShapeError unless the output is [N, C] with C > k.
  void add(const Variable& output, const Variable& target) override;
  double value() const override;

 private:
  int64_t k_;
};

/// Number of examples of each true class for each prediction. The value is the accuracy.
class ConfusionMatrix : public Metric {
 public:
  /// Throws ArgumentError for fewer than two classes.
  explicit ConfusionMatrix(int64_t classes, Where where = Where::current());
  std::string name() const override { return "accuracy"; }
  /// Throws ShapeError for an output of more classes, and IndexError for a target outside of
  /// [0, classes).
  void add(const Variable& output, const Variable& target) final;
  double value() const override;

  int64_t classes() const { return classes_; }
  /// Returns the counts [classes, classes], int64: row = true class, column = prediction.
  Variable counts() const;
  /// The name of torchmetrics for counts().
  Variable compute() const;

 private:
  int64_t classes_;
};

/// Combination of the values of the classes: kMacro takes their mean, kMicro computes one value
/// from the sums of the counts of all classes, kBinary takes the value of class 1 of two.
enum class Average { kMacro, kMicro, kBinary };  // or "macro", "micro", "binary"
constexpr auto choice_names(Average) {
  return std::to_array<ChoiceName<Average>>(
      {{"macro", Average::kMacro}, {"micro", Average::kMicro}, {"binary", Average::kBinary}});
}

/// Options in place of positions: F1({.num_classes = 3, .average = "micro"}).
struct ClassScoreOptions {
  ByName by_name = {};
  int64_t num_classes = 0;  // required
  Choice<Average> average = Average::kMacro;
};

/// Base of Precision, Recall and F1.
class ClassScore : public ConfusionMatrix {
 public:
  /// Returns "f1", "f1_micro" or "f1_binary", for example.
  std::string name() const final;
  double value() const final;
  double compute() const;
  std::vector<double> per_class() const;

 protected:
  /// Throws ArgumentError for kBinary unless there are two classes.
  ClassScore(std::string name, int64_t classes, Average average, Where where);
  /// Returns the score of a class from the numbers of correct predictions, of wrong predictions of
  /// the class, and of examples of the class that got another prediction.
  virtual double score(double right, double wrong, double missed) const = 0;

 private:
  struct Counts {
    double right, wrong, missed;
  };
  std::vector<Counts> by_class() const;

  std::string name_;
  Average average_;
};

/// right / (right + wrong).
class Precision final : public ClassScore {
 public:
  explicit Precision(int64_t classes, Choice<Average> average = Average::kMacro,
                     Where where = Where::current());
  explicit Precision(ClassScoreOptions options);

 private:
  double score(double right, double wrong, double missed) const override;
};
/// right / (right + missed).
class Recall final : public ClassScore {
 public:
  explicit Recall(int64_t classes, Choice<Average> average = Average::kMacro,
                  Where where = Where::current());
  explicit Recall(ClassScoreOptions options);

 private:
  double score(double right, double wrong, double missed) const override;
};
/// Harmonic mean of precision and recall.
class F1 final : public ClassScore {
 public:
  explicit F1(int64_t classes, Choice<Average> average = Average::kMacro,
              Where where = Where::current());
  explicit F1(ClassScoreOptions options);

 private:
  double score(double right, double wrong, double missed) const override;
};

/// torchmetrics' class. The average depends on the task.
struct F1Score {
  struct Options {
    ByName by_name = {};
    const char* task = "";
    int64_t num_classes = 0;
    const char* average = "";
  };
  template <typename X = int>
  F1Score(Options) : F1Score(X()) {}
  template <typename... Xs>
  F1Score(const Xs&...) noexcept(refuse<Xs...>()) {}

 private:
  template <typename... Xs>
  static constexpr bool refuse() {
    static_assert(sizeof...(Xs) > 1000,
                  "F1Score: type F1 f1(classes), F1(2, Average::kBinary) or "
                  "F1(classes, Average::kMicro)");
    return true;
  }
};

/// Area under the ROC curve: the probability that an example of class 1 has a larger score than an
/// example of class 0; equal scores count half. For more than two classes, the mean over the
/// classes, each against all others. Keeps all scores. NaN if a class has no examples, or all
/// examples, or a score is NaN.
class RocAuc final : public Metric {
 public:
  std::string name() const override { return "auc"; }
  /// Throws IndexError for a target outside of [0, C), for two classes [0, 2). Waits for the
  /// device.
  void add(const Variable& output, const Variable& target) override;
  double value() const override;
};

/// exp of the mean cross entropy, for logits [N, C] or [..., C] and ids [N] or [...].
class Perplexity final : public Metric {
 public:
  std::string name() const override { return "perplexity"; }
  void add(const Variable& output, const Variable& target) override;
  double value() const override;
};

/// torchmetrics' namespace: metrics::Accuracy, metrics::F1 ...
namespace metrics {
using ::tapegrad::Accuracy;
using ::tapegrad::Average;
using ::tapegrad::ConfusionMatrix;
using ::tapegrad::F1;
using ::tapegrad::F1Score;
using ::tapegrad::Perplexity;
using ::tapegrad::Precision;
using ::tapegrad::Recall;
using ::tapegrad::RocAuc;
using ::tapegrad::TopK;
using AUROC = RocAuc;
}  // namespace metrics

}  // namespace tapegrad
