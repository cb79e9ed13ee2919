// AdaptiveLogSoftmaxWithLoss: softmax over many classes of very different frequency.
#pragma once

#include "nn/linear.h"
#include "nn/sequential.h"

namespace tapegrad::nn {

struct AdaptiveLogSoftmaxOptions {
  double div_value = 4.0;  // cluster i has in_features / div_value^(i + 1) features
  bool head_bias = false;
};
/// The log-probabilities of the targets, and their negative mean.
struct AdaptiveLogSoftmaxResult {
  static constexpr int kParts = 2;
  Variable output, loss;
  Variable operator[](int part) const;
};
/// Softmax over many classes in the order of falling frequency (Grave et al. 2017). The first
/// cutoffs[0] classes, and one entry for each cluster, are computed for every example; the classes
/// of a cluster only for the examples of the cluster. Throws ArgumentError unless cutoffs are
/// ascending, above 0 and below n_classes.
class AdaptiveLogSoftmaxWithLoss final : public Model<AdaptiveLogSoftmaxWithLoss> {
 public:
  static constexpr std::string_view kName = "AdaptiveLogSoftmaxWithLoss";
  AdaptiveLogSoftmaxWithLoss(int64_t in_features, int64_t n_classes, std::vector<int64_t> cutoffs,
                             AdaptiveLogSoftmaxOptions options = {});
  AdaptiveLogSoftmaxWithLoss(int64_t in_features, int64_t n_classes, std::vector<int64_t> cutoffs,
                             double div_value, bool head_bias = false);
  void members(Members& m) override;
  /// x is [batch, in_features] and target has class ids [batch]; or both are one example without
  /// the batch dimension.
  AdaptiveLogSoftmaxResult forward(const Variable& x, const Variable& target) const;
  /// Returns the log-probabilities of all classes: [batch, n_classes].
  Variable log_prob(const Variable& x) const;
  /// Returns the most probable class of each example: int64 [batch].
  Variable predict(const Variable& x) const;

  Linear head;
  std::vector<Sequential> tail;

 private:
  std::vector<int64_t> cutoffs_;  // ends with n_classes
};

}  // namespace tapegrad::nn
