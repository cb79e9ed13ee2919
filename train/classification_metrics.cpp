#include "train/classification_metrics.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/loss.h"
#include "ops/rearrange.h"
#include "ops/reduce.h"
#include "ops/scatter.h"
#include "ops/sort.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

double quotient(double a, double b) { return b == 0 ? 0 : a / b; }

Variable count_of(const Variable& x) {
  return full({}, x.size(0), {.dtype = i64, .device = x.device()});
}

/// Returns the area for scores of one class, in float64, and whether each example belongs to it.
double area(const Variable& scores, const Variable& belongs) {
  const Variable positives = masked_select(scores, belongs);
  const Variable negatives = sort(masked_select(scores, logical_not(belongs))).values;
  if (any(isnan(scores))) return kNaN;
  const double pairs = double(positives.numel()) * double(negatives.numel());
  if (pairs == 0) return kNaN;
  // A positive wins against the negatives below it, and half against its equals.
  const Variable below = searchsorted(negatives, positives);
  const Variable not_above = searchsorted(negatives, positives, /*right=*/true);
  return sum((below + not_above).to(f64)).item() / 2 / pairs;
}

}  // namespace

Accuracy::Accuracy(const AccuracyOptions& options) {
  if (!options.task.empty() && options.task != "multiclass" && options.task != "binary")
    fail_at<ArgumentError>(options.by_name.where, "Accuracy: .task is \"", options.task,
                           "\", not multiclass or binary");
}

void Accuracy::add(const Variable& output, const Variable& target) {
  accumulate("right", count_correct(output, target));
  accumulate("count", count_of(output));
}

double Accuracy::value() const {
  return total("count").defined() ? number("right") / number("count") : kNaN;
}

TopK::TopK(int64_t k) : k_(k) {
  if (k < 1) fail<ArgumentError>("TopK: k is ", k, ", not at least 1");
}

void TopK::add(const Variable& output, const Variable& target) {
  const NoGrad no_grad;
  if (output.rank() != 2 || output.size(1) <= k_)
    fail<ShapeError>("TopK: an output [N, C] with C > ", k_, " expected: ", output.shape());
  const Variable scores = output.detach(), truth = target_classes(target);
  if (truth.size(0) != scores.size(0))
    fail<ShapeError>("TopK: output ", output.shape(), " and target ", target.shape(),
                     " do not fit");
  const Variable own = gather(scores, 1, unsqueeze(truth, 1));
  // A NaN is neither larger nor smaller, and is never right.
  const Variable better = sum(logical_not(scores <= own).to(i64), {1});
  accumulate("right", sum((better < k_).to(i64)));
  accumulate("count", count_of(output));
}

double TopK::value() const {
  return total("count").defined() ? number("right") / number("count") : kNaN;
}

ConfusionMatrix::ConfusionMatrix(int64_t classes, Where where) : classes_(classes) {
  if (classes < 2)
    fail_at<ArgumentError>(where, "a metric of classes: ", classes, " classes, not at least 2");
}

void ConfusionMatrix::add(const Variable& output, const Variable& target) {
  const NoGrad no_grad;
  if (output.rank() == 2 && output.size(1) > classes_)
    fail<ShapeError>(name(), ": an output of at most ", classes_,
                     " classes expected: ", output.shape());
  const Variable predicted = predicted_classes(output), truth = target_classes(target);
  if (predicted.shape() != truth.shape())
    fail<ShapeError>(name(), ": output ", output.shape(), " and target ", target.shape(),
                     " do not fit");
  Variable counts = total("counts");
  if (!counts.defined()) counts = zeros({classes_, classes_}, {.dtype = i64});
  // Looking up the class checks it.
  const Variable starts = arange(classes_, {.device = truth.device()}) * classes_;
  const Variable cells = index_select(starts, 0, truth) + predicted;
  const Variable ones = full(cells.shape(), 1, {.dtype = i64, .device = cells.device()});
  const Variable flat = reshape(counts.to(cells.device()), {-1});
  set("counts", reshape(index_add(flat, 0, cells, ones), {classes_, classes_}));
}

Variable ConfusionMatrix::counts() const {
  const Variable counts = total("counts");
  return counts.defined() ? counts : zeros({classes_, classes_}, {.dtype = i64});
}

double ConfusionMatrix::value() const {
  const std::vector<int64_t> cells = counts().to_vector<int64_t>();
  int64_t right = 0, all = 0;
  for (size_t i = 0; i < cells.size(); ++i) {
    all += cells[i];
    if (i % size_t(classes_ + 1) == 0) right += cells[i];
  }
  return all == 0 ? kNaN : double(right) / double(all);
}

ClassScore::ClassScore(std::string name, int64_t classes, Average average, Where where)
    : ConfusionMatrix(classes, where), name_(std::move(name)), average_(average) {
  if (average == Average::kBinary && classes != 2)
    fail_at<ArgumentError>(where, name_, ": Average::kBinary is for two classes, not ", classes);
}

std::string ClassScore::name() const {
  return name_ + (average_ == Average::kMicro    ? "_micro"
                  : average_ == Average::kBinary ? "_binary"
                                                 : "");
}

std::vector<ClassScore::Counts> ClassScore::by_class() const {
  const std::vector<int64_t> cells = counts().to_vector<int64_t>();
  std::vector<Counts> found(size_t(classes()), Counts{});
  for (size_t truth = 0; truth < found.size(); ++truth)
    for (size_t predicted = 0; predicted < found.size(); ++predicted) {
      const auto count = double(cells[truth * found.size() + predicted]);
      if (truth == predicted) {
        found[truth].right += count;
      } else {
        found[truth].missed += count;
        found[predicted].wrong += count;
      }
    }
  return found;
}

std::vector<double> ClassScore::per_class() const {
  std::vector<double> scores;
  for (const Counts& each : by_class())
    scores.push_back(score(each.right, each.wrong, each.missed));
  return scores;
}

double ClassScore::value() const {
  if (!total("counts").defined()) return kNaN;
  if (average_ == Average::kBinary) return per_class()[1];
  if (average_ == Average::kMicro) {
    Counts all{};
    for (const Counts& each : by_class()) {
      all.right += each.right;
      all.wrong += each.wrong;
      all.missed += each.missed;
    }
    return score(all.right, all.wrong, all.missed);
  }
  double total = 0;
  for (const double each : per_class()) total += each;
  return total / double(classes());
}

double Precision::score(double right, double wrong, double) const {
  return quotient(right, right + wrong);
}
double Recall::score(double right, double, double missed) const {
  return quotient(right, right + missed);
}
double F1::score(double right, double wrong, double missed) const {
  return quotient(2 * right, 2 * right + wrong + missed);
}

void RocAuc::add(const Variable& output, const Variable& target) {
  const NoGrad no_grad;
  const Variable truth = target_classes(target);
  Variable scores = output.detach().to(f64);
  if (scores.rank() == 1) scores = unsqueeze(scores, 1);
  if (scores.rank() != 2 || truth.size(0) != scores.size(0))
    fail<ShapeError>("RocAuc: output ", output.shape(), " and target ", target.shape(),
                     " do not fit");
  const int64_t classes = std::max<int64_t>(scores.size(1), 2);
  if (any(logical_or(truth < 0, truth >= classes)))
    fail<IndexError>("RocAuc: classes are in [0, ", classes, "), the targets in [",
                     amin(truth).item<int64_t>(), ", ", amax(truth).item<int64_t>(), "]");
  // The score of class 1 of two is its lead.
  if (scores.size(1) == 2) scores = narrow(scores, 1, 1, 1) - narrow(scores, 1, 0, 1);
  append("scores", scores);
  append("truth", truth);
}

double RocAuc::value() const {
  const Variable scores = total("scores"), truth = total("truth");
  if (!scores.defined()) return kNaN;
  const NoGrad no_grad;
  if (scores.size(1) == 1) return area(select(scores, 1, 0), truth == 1);
  double areas = 0;
  for (int64_t each = 0; each < scores.size(1); ++each)
    areas += area(select(scores, 1, each), truth == each);
  return areas / double(scores.size(1));
}

void Perplexity::add(const Variable& output, const Variable& target) {
  const NoGrad no_grad;
  if (output.rank() < 2) fail<ShapeError>("Perplexity: logits [N, C] expected: ", output.shape());
  const Variable logits =
      reshape(output.detach().to(output.dtype() == f64 ? f64 : f32), {-1, output.size(-1)});
  const Variable ids = reshape(target.detach(), {-1});
  accumulate("entropy", cross_entropy(logits, ids, {.reduction = Reduction::kSum}).to(f64));
  accumulate("count", count_of(ids));
}

double Perplexity::value() const {
  return total("count").defined() ? std::exp(number("entropy") / number("count")) : kNaN;
}

std::string TopK::name() const { return "top" + std::to_string(k_); }
Variable ConfusionMatrix::compute() const { return counts(); }
double ClassScore::compute() const { return value(); }
Precision::Precision(int64_t classes, Choice<Average> average, Where where)
    : ClassScore("precision", classes, average, where) {}
Precision::Precision(ClassScoreOptions options)
    : Precision(options.num_classes, options.average, options.by_name.where) {}
Recall::Recall(int64_t classes, Choice<Average> average, Where where)
    : ClassScore("recall", classes, average, where) {}
Recall::Recall(ClassScoreOptions options)
    : Recall(options.num_classes, options.average, options.by_name.where) {}
F1::F1(int64_t classes, Choice<Average> average, Where where)
    : ClassScore("f1", classes, average, where) {}
F1::F1(ClassScoreOptions options)
    : F1(options.num_classes, options.average, options.by_name.where) {}
}  // namespace tapegrad
