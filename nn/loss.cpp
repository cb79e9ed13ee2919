#include "nn/loss.h"

namespace tapegrad::nn {

MSELoss::MSELoss(Reduction reduction) : reduction(reduction) {}
L1Loss::L1Loss(Reduction reduction) : reduction(reduction) {}
SmoothL1Loss::SmoothL1Loss(SmoothL1Options options) : with(options) {}
HuberLoss::HuberLoss(HuberOptions options) : with(options) {}
CrossEntropyLoss::CrossEntropyLoss(CrossEntropyOptions options) : with(std::move(options)) {}
NLLLoss::NLLLoss(NllLossOptions options) : with(std::move(options)) {}
BCELoss::BCELoss(BCEOptions options) : with(std::move(options)) {}
BCEWithLogitsLoss::BCEWithLogitsLoss(BceWithLogitsOptions options) : with(std::move(options)) {}
KLDivLoss::KLDivLoss(KLDivOptions options) : with(options) {}

}  // namespace tapegrad::nn
