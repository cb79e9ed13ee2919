// Losses of margins, distributions and alignments as modules; other losses are in nn/loss.h. The
// formulas are in ops/margin_loss.h and ops/ctc_loss.h.
//
//   nn::TripletMarginLoss loss({.margin = 0.2});
//   loss(anchor, positive, negative).backward();
#pragma once

#include "nn/function_layer.h"
#include "ops/ctc_loss.h"
#include "ops/loss.h"

namespace tapegrad::nn {

namespace detail {
// Types of the losses that take options by name, to select one of several overloads.
template <typename Options>
using LossOfTwo = Variable (*)(const Variable&, const Variable&, Options, Where);
template <typename Options>
using LossOfThree = Variable (*)(const Variable&, const Variable&, const Variable&, Options, Where);
}  // namespace detail

struct TripletMarginLoss final
    : Function3<TripletMarginLoss, detail::LossOfThree<TripletMarginOptions>(triplet_margin_loss),
                TripletMarginOptions> {
  explicit TripletMarginLoss(TripletMarginOptions options = {}, Where where = Where::current());
  explicit TripletMarginLoss(double margin, double p = 2.0, Where where = Where::current());
};
/// TripletMarginLoss with a distance of the program, a function of two Variables.
struct TripletMarginWithDistanceLoss final
    : Function3<TripletMarginWithDistanceLoss, triplet_margin_with_distance_loss,
                TripletDistanceOptions> {
  explicit TripletMarginWithDistanceLoss(TripletDistanceOptions options = {});
  /// Takes the distance, a function or a layer, by position, and options by name.
  template <typename F>
  requires(
      !std::same_as<F, TripletMarginWithDistanceLoss> &&
      !std::same_as<
          F, TripletDistanceOptions>) explicit TripletMarginWithDistanceLoss(F distance_function,
                                                                             TripletDistanceOptions
                                                                                 options = {})
      : TripletMarginWithDistanceLoss(
            (options.distance_function = std::move(distance_function), options)) {}
};
struct MarginRankingLoss final
    : Function3<MarginRankingLoss, detail::LossOfThree<MarginOptions>(margin_ranking_loss),
                MarginOptions> {
  explicit MarginRankingLoss(MarginOptions options = {});
  explicit MarginRankingLoss(double margin);
};
struct CosineEmbeddingLoss final
    : Function3<CosineEmbeddingLoss, detail::LossOfThree<MarginOptions>(cosine_embedding_loss),
                MarginOptions> {
  explicit CosineEmbeddingLoss(MarginOptions options = {});
  explicit CosineEmbeddingLoss(double margin);
};
struct HingeEmbeddingLoss final
    : Function2<HingeEmbeddingLoss, detail::LossOfTwo<HingeEmbeddingOptions>(hinge_embedding_loss),
                HingeEmbeddingOptions> {
  explicit HingeEmbeddingLoss(HingeEmbeddingOptions options = {});
  explicit HingeEmbeddingLoss(double margin);
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
  template <std::same_as<bool> B>
  explicit PoissonNLLLoss(B log_input, bool full = false)
      : PoissonNLLLoss(PoissonNllOptions{.log_input = log_input, .full = full}) {}
};
/// forward() takes x, target and variance.
struct GaussianNLLLoss final
    : Function3<GaussianNLLLoss, detail::LossOfThree<GaussianNllOptions>(gaussian_nll_loss),
                GaussianNllOptions> {
  explicit GaussianNLLLoss(GaussianNllOptions options = {}, Where where = Where::current());
};

// Weights of classes are buffers: they move to a device with the loss.

struct MultiMarginLoss final : Function2<MultiMarginLoss, multi_margin_loss, MultiMarginOptions> {
  explicit MultiMarginLoss(MultiMarginOptions options = {}, Where where = Where::current());
  template <std::integral P>
  explicit MultiMarginLoss(P p, double margin = 1.0, Where where = Where::current())
      : MultiMarginLoss(MultiMarginOptions{.p = int(p), .margin = margin}, where) {}
  void members(Members& m) override;
};
struct MultiLabelSoftMarginOptions {
  Variable weight = {};
  Reduction reduction = Reduction::kMean;
};
struct MultiLabelSoftMarginLoss final
    : Function2<MultiLabelSoftMarginLoss, multilabel_soft_margin_loss, Variable, Reduction> {
  explicit MultiLabelSoftMarginLoss(MultiLabelSoftMarginOptions options = {});
  void members(Members& m) override;
};

struct CTCLoss final : Stateless<CTCLoss> {
  CtcLossOptions with;
  explicit CTCLoss(CtcLossOptions options = {}, Where where = Where::current());
  explicit CTCLoss(int64_t blank, Reduction reduction = Reduction::kMean,
                   bool zero_infinity = false, Where where = Where::current());
  /// Overload with the lengths as integer Variables.
  Variable forward(const Variable& log_probs, const Variable& targets,
                   const Variable& input_lengths, const Variable& target_lengths) const;
  Variable forward(const Variable& log_probs, const Variable& targets,
                   const std::vector<int64_t>& input_lengths,
                   const std::vector<int64_t>& target_lengths) const;
};

}  // namespace tapegrad::nn
