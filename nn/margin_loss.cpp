#include "nn/margin_loss.h"

#include "core/tape/internal/call_line.h"
#include "nn/option_checks.h"

namespace tapegrad::nn {

SoftMarginLoss::SoftMarginLoss(Reduction reduction) : Function2(reduction) {}
PoissonNLLLoss::PoissonNLLLoss(PoissonNllOptions options) : Function2(options) {}
GaussianNLLLoss::GaussianNLLLoss(GaussianNllOptions options, Where where) : Function3(options) {
  require_positive(kind(), ".eps", options.eps, where);
}
MultiMarginLoss::MultiMarginLoss(MultiMarginOptions options, Where where)
    : Function2(std::move(options)) {
  const ErrorLine line(where);
  const auto p = kept_.first.p;
  if (p != 1 && p != 2) fail<ArgumentError>(kind(), ": .p is ", p, ", not 1 or 2");
}
CTCLoss::CTCLoss(CtcLossOptions options, Where where) : with(options) {
  require_from(kind(), ".blank", options.blank, 0, where);
}
TripletMarginLoss::TripletMarginLoss(TripletMarginOptions options, Where where)
    : Function3(options) {
  require_positive(kind(), ".margin", options.margin, where);
  require_positive(kind(), ".p", options.p, where);
}
TripletMarginLoss::TripletMarginLoss(double margin, double p, Where where)
    : TripletMarginLoss(TripletMarginOptions{.margin = margin, .p = p}, where) {}
TripletMarginWithDistanceLoss::TripletMarginWithDistanceLoss(TripletDistanceOptions options)
    : Function3(options) {
  require_positive(kind(), ".margin", options.margin, options.by_name.where);
}
MarginRankingLoss::MarginRankingLoss(MarginOptions options) : Function3(options) {}
CosineEmbeddingLoss::CosineEmbeddingLoss(MarginOptions options) : Function3(options) {}
HingeEmbeddingLoss::HingeEmbeddingLoss(HingeEmbeddingOptions options) : Function2(options) {}
MultiLabelMarginLoss::MultiLabelMarginLoss(Reduction reduction) : Function2(reduction) {}
MultiLabelSoftMarginLoss::MultiLabelSoftMarginLoss(MultiLabelSoftMarginOptions options)
    : Function2(std::move(options.weight), options.reduction) {}

void MultiMarginLoss::members(Members& m) { m.buffer("weight", kept_.first.weight); }
void MultiLabelSoftMarginLoss::members(Members& m) { m.buffer("weight", kept_.first); }
CTCLoss::CTCLoss(int64_t blank, Reduction reduction, bool zero_infinity, Where where)
    : CTCLoss(CtcLossOptions{blank, reduction, zero_infinity}, where) {}
Variable CTCLoss::forward(const Variable& log_probs, const Variable& targets,
                          const Variable& input_lengths, const Variable& target_lengths) const {
  return ctc_loss(log_probs, targets, input_lengths, target_lengths, with, ModuleCall::line());
}
Variable CTCLoss::forward(const Variable& log_probs, const Variable& targets,
                          const std::vector<int64_t>& input_lengths,
                          const std::vector<int64_t>& target_lengths) const {
  return ctc_loss(log_probs, targets, input_lengths, target_lengths, with, ModuleCall::line());
}
CosineEmbeddingLoss::CosineEmbeddingLoss(double margin)
    : CosineEmbeddingLoss(MarginOptions{margin}) {}
HingeEmbeddingLoss::HingeEmbeddingLoss(double margin)
    : HingeEmbeddingLoss(HingeEmbeddingOptions{margin}) {}
MarginRankingLoss::MarginRankingLoss(double margin) : MarginRankingLoss(MarginOptions{margin}) {}
}  // namespace tapegrad::nn
