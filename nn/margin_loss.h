// Losses of margins, distributions and alignments as modules; other losses are in nn/loss.h. The
// formulas are in ops/loss.h and ops/ctc_loss.h.
//
//   nn::TripletMarginLoss loss({.margin = 0.2});
//   loss(anchor, positive, negative).backward();
#pragma once

#include "nn/function.h"
#include "ops/ctc_loss.h"
#include "ops/loss.h"

namespace tapegrad::nn {

using TripletMarginOp = Variable (*)(const Variable& anchor, const Variable& positive,
                                     const Variable& negative, TripletMarginOptions options,
                                     Where where);
struct TripletMarginLoss final
    : Function3<TripletMarginLoss, static_cast<TripletMarginOp>(triplet_margin_loss),
                TripletMarginOptions> {
  explicit TripletMarginLoss(TripletMarginOptions options = {});
  explicit TripletMarginLoss(double margin, double p = 2.0);
};
struct MarginOptions {
  double margin = 0.0;
  Reduction reduction = Reduction::kMean;
};
struct MarginRankingLoss final
    : Function3<MarginRankingLoss, margin_ranking_loss, double, Reduction> {
  explicit MarginRankingLoss(MarginOptions options = {});
  explicit MarginRankingLoss(double margin) : MarginRankingLoss(MarginOptions{margin}) {}
};
struct CosineEmbeddingLoss final
    : Function3<CosineEmbeddingLoss, cosine_embedding_loss, double, Reduction> {
  explicit CosineEmbeddingLoss(MarginOptions options = {});
  explicit CosineEmbeddingLoss(double margin) : CosineEmbeddingLoss(MarginOptions{margin}) {}
};
struct HingeEmbeddingLoss final
    : Function2<HingeEmbeddingLoss, hinge_embedding_loss, double, Reduction> {
  explicit HingeEmbeddingLoss(MarginOptions options = {.margin = 1.0});
  explicit HingeEmbeddingLoss(double margin) : HingeEmbeddingLoss(MarginOptions{margin}) {}
};
struct SoftMarginLoss final : Function2<SoftMarginLoss, soft_margin_loss, Reduction> {
  explicit SoftMarginLoss(Reduction reduction = Reduction::kMean);
};
struct MultiLabelMarginLoss final
    : Function2<MultiLabelMarginLoss, multilabel_margin_loss, Reduction> {
  explicit MultiLabelMarginLoss(Reduction reduction = Reduction::kMean);
};
struct PoissonNLLLoss final : Function2<PoissonNLLLoss, poisson_nll_loss, PoissonNllOptions> {
  explicit PoissonNLLLoss(PoissonNllOptions options = {});
};
/// forward() takes x, target and variance.
struct GaussianNLLLoss final : Function3<GaussianNLLLoss, gaussian_nll_loss, GaussianNllOptions> {
  explicit GaussianNLLLoss(GaussianNllOptions options = {});
};

// Weights of classes are buffers: they move to a device with the loss.

struct MultiMarginLoss final : Function2<MultiMarginLoss, multi_margin_loss, MultiMarginOptions> {
  explicit MultiMarginLoss(MultiMarginOptions options = {});
  void members(Members& m) override { m.buffer("weight", kept_.first.weight); }
};
struct MultiLabelSoftMarginOptions {
  Variable weight = {};
  Reduction reduction = Reduction::kMean;
};
struct MultiLabelSoftMarginLoss final
    : Function2<MultiLabelSoftMarginLoss, multilabel_soft_margin_loss, Variable, Reduction> {
  explicit MultiLabelSoftMarginLoss(MultiLabelSoftMarginOptions options = {});
  void members(Members& m) override { m.buffer("weight", kept_.first); }
};

struct CTCLoss final : Stateless<CTCLoss> {
  CtcLossOptions with;
  explicit CTCLoss(CtcLossOptions options = {});
  explicit CTCLoss(int64_t blank, Reduction reduction = Reduction::kMean,
                   bool zero_infinity = false)
      : CTCLoss(CtcLossOptions{blank, reduction, zero_infinity}) {}
  /// Overload with the lengths as integer Variables.
  Variable forward(const Variable& log_probs, const Variable& targets,
                   const Variable& input_lengths, const Variable& target_lengths) const {
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, with, ModuleCall::line());
  }
  Variable forward(const Variable& log_probs, const Variable& targets,
                   const std::vector<int64_t>& input_lengths,
                   const std::vector<int64_t>& target_lengths) const {
    return ctc_loss(log_probs, targets, input_lengths, target_lengths, with, ModuleCall::line());
  }
};

}  // namespace tapegrad::nn
