// Losses and metrics that are given by name.
#include <memory>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/tape/internal/call_line.h"
#include "nn/loss.h"
#include "ops/binary.h"
#include "ops/loss.h"
#include "ops/unary.h"
#include "train/classification_metrics.h"
#include "train/evaluate.h"
#include "train/regression_metrics.h"

namespace tapegrad {
namespace {

template <typename T>
struct Named {
  std::string_view name;
  T (*make)();
};

/// Returns the value of the entry with a name. `kind` and `remedy` are parts of the error.
template <typename T, size_t n>
T find(const Named<T> (&entries)[n], std::string_view name, const char* kind, const char* remedy) {
  std::string known;
  for (const Named<T>& entry : entries) {
    if (entry.name == name) return entry.make();
    known.append(known.empty() ? "" : ", ").append(entry.name);
  }
  fail<ArgumentError>("no ", kind, " is called \"", name, "\"; there are ", known, "; ", remedy);
}

/// Cross entropy of probabilities, whose sum may differ from 1. `op` is the name in errors.
Variable cross_entropy_of_probabilities(const char* op, const Variable& output,
                                        const Variable& target) {
  kernels::check_unit(output.detach().value(), op);
  return cross_entropy(log(clamp(output, {.min = 1e-7})), target);
}

using Pair = const Variable&;
LossFn cross_entropy_of_logits() {
  return [](Pair output, Pair target) { return cross_entropy(output, target); };
}
LossFn mean_squared_error() { return nn::MSELoss(); }
LossFn mean_absolute_error() { return nn::L1Loss(); }
LossFn binary_crossentropy() { return nn::BCELoss(); }
LossFn binary_crossentropy_of_logits() { return nn::BCEWithLogitsLoss(); }
LossFn huber() { return nn::HuberLoss(); }
LossFn smooth_l1() { return nn::SmoothL1Loss(); }
LossFn negative_log_likelihood() { return nn::NLLLoss(); }
LossFn categorical_crossentropy() {
  return [](Pair output, Pair target) {
    return cross_entropy_of_probabilities(
        "categorical_crossentropy (for logits: \"cross_entropy\")", output, target);
  };
}
LossFn sparse_categorical_crossentropy() {
  return [](Pair output, Pair target) {
    return cross_entropy_of_probabilities(
        "sparse_categorical_crossentropy (for logits: \"cross_entropy\")", output, target);
  };
}

constexpr Named<LossFn> kLosses[] = {
    {"cross_entropy", cross_entropy_of_logits},
    {"nll_loss", negative_log_likelihood},
    {"mse", mean_squared_error},
    {"mse_loss", mean_squared_error},
    {"mean_squared_error", mean_squared_error},
    {"mae", mean_absolute_error},
    {"l1_loss", mean_absolute_error},
    {"mean_absolute_error", mean_absolute_error},
    {"huber", huber},
    {"huber_loss", huber},
    {"smooth_l1_loss", smooth_l1},
    {"bce", binary_crossentropy},
    {"binary_cross_entropy", binary_crossentropy},
    {"binary_crossentropy", binary_crossentropy},
    {"binary_cross_entropy_with_logits", binary_crossentropy_of_logits},
    {"categorical_crossentropy", categorical_crossentropy},
    {"sparse_categorical_crossentropy", sparse_categorical_crossentropy},
};

using MetricPtr = std::shared_ptr<Metric>;
MetricPtr accuracy() { return std::make_shared<Accuracy>(); }
MetricPtr auc() { return std::make_shared<RocAuc>(); }
MetricPtr mae() { return std::make_shared<MeanAbsoluteError>(); }
MetricPtr mse() { return std::make_shared<MeanSquaredError>(); }
MetricPtr r2() { return std::make_shared<R2>(); }

constexpr Named<MetricPtr> kMetrics[] = {
    {"accuracy", accuracy},
    {"acc", accuracy},
    {"auc", auc},
    {"mae", mae},
    {"mse", mse},
    {"mean_absolute_error", mae},
    {"r2", r2},
    {"mean_squared_error", mse},
};

}  // namespace

LossFn LossFn::named(std::string_view name, Where where) {
  const ErrorLine line(where);
  return find(kLosses, name, "loss", "any other is a function of output and target");
}

MetricRef::MetricRef(Metric* metric) : metric_(std::shared_ptr<void>(), metric) {
  if (metric == nullptr) fail<ArgumentError>("a metric is a null pointer");
}

std::shared_ptr<Metric> MetricRef::named(std::string_view name, Where where) {
  const ErrorLine line(where);
  return find(kMetrics, name, "metric", "any other is an object: F1 f1(10); {.metrics = {f1}}");
}

}  // namespace tapegrad
