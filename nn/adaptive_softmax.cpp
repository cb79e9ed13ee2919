#include "nn/adaptive_softmax.h"

#include <cmath>

#include "ops/binary.h"
#include "ops/extremes.h"
#include "ops/index.h"
#include "ops/internal/value_checks.h"
#include "ops/reduce.h"
#include "ops/scatter.h"
#include "ops/softmax.h"
#include "ops/view.h"

namespace tapegrad::nn {
namespace {

/// Throws ArgumentError unless the cutoffs rise.
std::vector<int64_t> with_end(std::vector<int64_t> cutoffs, int64_t n_classes) {
  int64_t last = 0;
  cutoffs.push_back(n_classes);
  for (const int64_t cutoff : cutoffs) {
    if (cutoff <= last)
      fail<ArgumentError>("AdaptiveLogSoftmaxWithLoss: cutoffs rise from above 0 to below ",
                          n_classes, " classes; found ", cutoff, " after ", last);
    last = cutoff;
  }
  if (cutoffs.size() < 2) fail<ArgumentError>("AdaptiveLogSoftmaxWithLoss: no cutoffs");
  return cutoffs;
}

}  // namespace

AdaptiveLogSoftmaxWithLoss::AdaptiveLogSoftmaxWithLoss(int64_t in_features, int64_t n_classes,
                                                       std::vector<int64_t> cutoffs,
                                                       AdaptiveLogSoftmaxOptions options)
    : head(in_features, with_end(cutoffs, n_classes)[0] + int64_t(cutoffs.size()),
           options.head_bias),
      cutoffs_(with_end(cutoffs, n_classes)) {
  if (!(options.div_value >= 1))
    fail<ArgumentError>(kName, ": div_value is ", options.div_value, ", not at least 1");
  for (size_t i = 0; i + 1 < cutoffs_.size(); ++i) {
    const auto hidden = int64_t(double(in_features) / std::pow(options.div_value, double(i + 1)));
    if (hidden < 1)
      fail<ArgumentError>(kName, ": div_value ", options.div_value, " leaves no features for ",
                          "cluster ", i);
    tail.push_back(Sequential(Linear(in_features, hidden, false),
                              Linear(hidden, cutoffs_[i + 1] - cutoffs_[i], false)));
  }
}
AdaptiveLogSoftmaxWithLoss::AdaptiveLogSoftmaxWithLoss(int64_t in_features, int64_t n_classes,
                                                       std::vector<int64_t> cutoffs,
                                                       double div_value, bool head_bias)
    : AdaptiveLogSoftmaxWithLoss(in_features, n_classes, std::move(cutoffs),
                                 AdaptiveLogSoftmaxOptions{div_value, head_bias}) {}

AdaptiveLogSoftmaxResult AdaptiveLogSoftmaxWithLoss::forward(const Variable& given,
                                                             const Variable& given_target) const {
  const bool single = given_target.rank() == 0;
  const Variable x = single ? unsqueeze(given, 0) : given;
  const Variable target = single ? unsqueeze(given_target, 0) : given_target;
  if (x.rank() != 2 || target.rank() != 1 || x.size(0) != target.size(0))
    fail<ShapeError>(kName, ": x ", given.shape(), " and targets ", given_target.shape());
  if (target.numel() > 0)
    tapegrad::detail::check_values(any((target < 0).logical_or(target >= cutoffs_.back())).value(),
                                   [classes = cutoffs_.back()](const Tensor& is_outside) {
                                     if (is_outside.item() != 0)
                                       fail<IndexError>(kName, ": a target is not in [0, ", classes,
                                                        ")");
                                   });
  const Variable scores = log_softmax(head(x), 1);
  // The entry of the head: the class itself, or its cluster.
  Variable entry = target;
  for (size_t i = 0; i < tail.size(); ++i)
    entry = where((target >= cutoffs_[i]).logical_and(target < cutoffs_[i + 1]),
                  cutoffs_[0] + int64_t(i), entry);
  Variable output = squeeze(gather(scores, 1, unsqueeze(entry, 1)), 1);
  for (size_t i = 0; i < tail.size(); ++i) {
    const Variable rows =
        squeeze(nonzero((target >= cutoffs_[i]).logical_and(target < cutoffs_[i + 1])), 1);
    if (rows.numel() == 0) continue;
    const Variable within = log_softmax(tail[i](index_select(x, 0, rows)), 1);
    const Variable number = index_select(target, 0, rows) - cutoffs_[i];
    output = index_add(output, 0, rows, squeeze(gather(within, 1, unsqueeze(number, 1)), 1));
  }
  return {single ? squeeze(output, 0) : output, -mean(output)};
}

Variable AdaptiveLogSoftmaxWithLoss::log_prob(const Variable& x) const {
  const Variable scores = log_softmax(head(x), 1);
  std::vector<Variable> parts{slice(scores, 1, 0, cutoffs_[0])};
  for (size_t i = 0; i < tail.size(); ++i)
    parts.push_back(log_softmax(tail[i](x), 1) + narrow(scores, 1, cutoffs_[0] + int64_t(i), 1));
  return cat(parts, 1);
}

Variable AdaptiveLogSoftmaxWithLoss::predict(const Variable& x) const {
  return argmax(log_prob(x), 1);
}

Variable AdaptiveLogSoftmaxResult::operator[](int part) const {
  return tapegrad::detail::part_at(*this, part);
}
void AdaptiveLogSoftmaxWithLoss::members(Members& m) { m("head", head)("tail", tail); }
}  // namespace tapegrad::nn
