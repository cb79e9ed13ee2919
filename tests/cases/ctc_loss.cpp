#include <cmath>

#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

using Index = std::vector<int64_t>;

/// Returns the labels of a path of classes: repeated classes count once, blanks are removed.
Index spelled(const Index& path, int64_t blank) {
  Index labels;
  for (size_t t = 0; t < path.size(); ++t)
    if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) labels.push_back(path[t]);
  return labels;
}

/// Sums over all paths.
double loss(const Array& log_probs, int64_t example, int64_t steps, const Index& target,
            int64_t blank) {
  const Shape& s = log_probs.shape;
  double sum = 0;
  for_each_index(Dims::filled(int(steps), s[2]), [&](int64_t, const Index& path) {
    if (spelled(path, blank) != target) return;
    double log_prob = 0;
    for (int64_t t = 0; t < steps; ++t)
      log_prob += log_probs.values[flat_index(s, {t, example, path[size_t(t)]})];
    sum += std::exp(log_prob);
  });
  return -std::log(sum);
}

Reference ctc(const Index& input_lengths, const Index& target_lengths, int64_t blank,
              const std::string& reduction) {
  return [=](const std::vector<Array>& in) {
    const int64_t n = in[0].shape[1];
    const bool rows = in[1].shape.rank() == 2;
    Array losses{{n}, {}};
    double mean = 0, sum = 0;
    int64_t begin = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t length = target_lengths[size_t(i)];
      const int64_t first = rows ? i * in[1].shape[1] : begin;
      begin += length;
      Index target;
      for (int64_t k = 0; k < length; ++k) target.push_back(int64_t(in[1].values[first + k]));
      losses.values.push_back(loss(in[0], i, input_lengths[size_t(i)], target, blank));
      sum += losses.values.back();
      mean += losses.values.back() / std::fmax(double(length), 1) / double(n);
    }
    if (reduction == "none") return losses;
    return Array{{}, {reduction == "sum" ? sum : mean}};
  };
}

}  // namespace

void ctc_loss_cases(OpCases& cases) {
  for (const std::string reduction : {"mean", "sum", "none"})
    for (const Shape& targets : {Shape{3, 2}, Shape{3}}) {
      const Index input_lengths{5, 4, 3};
      const Index target_lengths = targets.rank() == 2 ? Index{2, 1, 0} : Index{1, 2, 0};
      cases.push_back({.op = "ctc_loss",
                       .inputs = {Input{{5, 3, 4}}, Input{targets, Fill::kIndices, 3}},
                       .attributes = {{"input_lengths", input_lengths},
                                      {"target_lengths", target_lengths},
                                      {"blank", int64_t(3)},
                                      {"reduction", reduction}},
                       .reference = ctc(input_lengths, target_lengths, 3, reduction),
                       .tolerance = 16});
    }
}

}  // namespace tapegrad::testing
