// AdaptiveLogSoftmaxWithLoss: softmax over many classes of very different frequency.
#pragma once

#include "nn/linear.h"
#include "nn/sequential.h"

namespace tapegrad::nn {

struct AdaptiveLogSoftmaxOptions {
  double div_value = 4.0;  // cluster i computes with in_features / div_value^(i + 1) features
  bool head_bias = false;
};
/// The log-probabilities of the targets, and their negative mean.
struct AdaptiveLogSoftmaxResult {
  static constexpr int kParts = 2;
  Variable output, loss;
  Variable operator[](int part) const { return tapegrad::detail::part_at(*this, part); }
};
/// Softmax over many classes in the order of falling frequency (Grave et al. 2017): the first
/// cutoffs[0] classes and one entry for each cluster are computed for every example, the classes of
/// a cluster for its examples only. Throws ArgumentError unless cutoffs rise from above 0 to below
/// n_classes.
class AdaptiveLogSoftmaxWithLoss final : public Model<AdaptiveLogSoftmaxWithLoss> {
 public:
  static constexpr std::string_view kName = "AdaptiveLogSoftmaxWithLoss";
  AdaptiveLogSoftmaxWithLoss(int64_t in_features, int64_t n_classes, std::vector<int64_t> cutoffs,
                             AdaptiveLogSoftmaxOptions options = {});
  AdaptiveLogSoftmaxWithLoss(int64_t in_features, int64_t n_classes, std::vector<int64_t> cutoffs,
                             double div_value, bool head_bias = false);
  void members(Members& m) override { m("head", head)("tail", tail); }
  /// Of x [batch, in_features] and class ids [batch]; or of one example without the batch.
  AdaptiveLogSoftmaxResult forward(const Variable& x, const Variable& target) const;
  /// The log-probabilities of all classes: [batch, n_classes].
  Variable log_prob(const Variable& x) const;
  /// The most probable class of each example: int64 [batch].
  Variable predict(const Variable& x) const;

  Linear head;
  std::vector<Sequential> tail;

 private:
  std::vector<int64_t> cutoffs_;  // ends with n_classes
};

}  // namespace tapegrad::nn
