#include "nn/margin_loss.h"

namespace tapegrad::nn {

SoftMarginLoss::SoftMarginLoss(Reduction reduction) : Function2(reduction) {}
PoissonNLLLoss::PoissonNLLLoss(PoissonNllOptions options) : Function2(options) {}
GaussianNLLLoss::GaussianNLLLoss(GaussianNllOptions options) : Function3(options) {}
MultiMarginLoss::MultiMarginLoss(MultiMarginOptions options) : Function2(std::move(options)) {}
CTCLoss::CTCLoss(CtcLossOptions options) : with(options) {}
TripletMarginLoss::TripletMarginLoss(TripletMarginOptions options) : Function3(options) {}
TripletMarginLoss::TripletMarginLoss(double margin, double p)
    : TripletMarginLoss(TripletMarginOptions{.margin = margin, .p = p}) {}
MarginRankingLoss::MarginRankingLoss(MarginOptions options) : Function3(options) {}
CosineEmbeddingLoss::CosineEmbeddingLoss(MarginOptions options) : Function3(options) {}
HingeEmbeddingLoss::HingeEmbeddingLoss(HingeEmbeddingOptions options) : Function2(options) {}
MultiLabelMarginLoss::MultiLabelMarginLoss(Reduction reduction) : Function2(reduction) {}
MultiLabelSoftMarginLoss::MultiLabelSoftMarginLoss(MultiLabelSoftMarginOptions options)
    : Function2(std::move(options.weight), options.reduction) {}

}  // namespace tapegrad::nn
