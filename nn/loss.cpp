#include "nn/loss.h"

#include "core/tape/internal/call_line.h"
#include "nn/option_checks.h"
#include "ops/binary.h"
#include "ops/linear_cross_entropy.h"

namespace tapegrad::nn {

MSELoss::MSELoss(Reduction reduction) : reduction(reduction) {}
MSELoss::MSELoss(LossOptions options) : reduction(options.reduction) {}
L1Loss::L1Loss(Reduction reduction) : reduction(reduction) {}
L1Loss::L1Loss(LossOptions options) : reduction(options.reduction) {}
SmoothL1Loss::SmoothL1Loss(SmoothL1Options options, Where where) : with(options) {
  require_not_negative(kind(), ".beta", options.beta, where);
}
HuberLoss::HuberLoss(HuberOptions options, Where where) : with(options) {
  require_positive(kind(), ".delta", options.delta, where);
}
CrossEntropyLoss::CrossEntropyLoss(CrossEntropyOptions options, Where where)
    : with(std::move(options)) {
  require_share(kind(), ".label_smoothing", with.label_smoothing, where);
}
CrossEntropyLoss::CrossEntropyLoss(const Variable& weight, CrossEntropyOptions options, Where where)
    : CrossEntropyLoss(std::move(options), where) {
  with.weight = weight;
}
NLLLoss::NLLLoss(NllLossOptions options) : with(std::move(options)) {}
NLLLoss::NLLLoss(const Variable& weight, NllLossOptions options) : NLLLoss(std::move(options)) {
  with.weight = weight;
}
BCELoss::BCELoss(BCEOptions options) : with(std::move(options)) {}
BCEWithLogitsLoss::BCEWithLogitsLoss(BceWithLogitsOptions options) : with(std::move(options)) {}
BCELoss::BCELoss(const Variable& weight, BCEOptions options) : BCELoss(std::move(options)) {
  with.weight = weight;
}
BCEWithLogitsLoss::BCEWithLogitsLoss(const Variable& weight, BceWithLogitsOptions options)
    : BCEWithLogitsLoss(std::move(options)) {
  with.weight = weight;
}
KLDivLoss::KLDivLoss(KLDivOptions options) : with(options) {}

Variable MSELoss::forward(const Variable& x, const Variable& target, Where where) const {
  return mse_loss(x, target, reduction, where);
}
Variable L1Loss::forward(const Variable& x, const Variable& target, Where where) const {
  return l1_loss(x, target, reduction, where);
}
Variable SmoothL1Loss::forward(const Variable& x, const Variable& target, Where where) const {
  return smooth_l1_loss(x, target, with.beta, with.reduction, where);
}
Variable HuberLoss::forward(const Variable& x, const Variable& target, Where where) const {
  return huber_loss(x, target, with.delta, with.reduction, where);
}
Variable CrossEntropyLoss::forward(const Variable& x, const Variable& target, Where where) const {
  return cross_entropy(x, target, with, where);
}
Variable NLLLoss::forward(const Variable& x, const Variable& target, Where where) const {
  return nll_loss(x, target, with, where);
}
Variable BCELoss::forward(const Variable& x, const Variable& target, Where where) const {
  return binary_cross_entropy(x, target, with.weight, with.reduction, where);
}
Variable BCEWithLogitsLoss::forward(const Variable& x, const Variable& target, Where where) const {
  return binary_cross_entropy_with_logits(x, target, with, where);
}
Variable KLDivLoss::forward(const Variable& x, const Variable& target, Where where) const {
  const Variable loss = kl_div(x, target, with.log_target, with.reduction.kind, where);
  return with.reduction.is_batchmean ? tapegrad::div({loss, where}, {double(x.size(0)), where})
                                     : loss;
}

SmoothL1Loss::SmoothL1Loss(Reduction reduction, double beta, Where where)
    : SmoothL1Loss(SmoothL1Options{.reduction = reduction, .beta = beta}, where) {}
HuberLoss::HuberLoss(Reduction reduction, double delta, Where where)
    : HuberLoss(HuberOptions{reduction, delta}, where) {}
LinearCrossEntropyLoss::LinearCrossEntropyLoss(int64_t in_features, int64_t num_classes,
                                               LinearCrossEntropyLossOptions options)
    : linear(in_features, num_classes, options.bias, options.by_name.where),
      options_(std::move(options)) {
  const ErrorLine line(options_.by_name.where);
  if (options_.weight.defined() && options_.weight.shape() != Shape{num_classes})
    fail<ShapeError>(kName, ": .weight is [", num_classes, "], not ", options_.weight.shape());
  require_share(kName, ".label_smoothing", options_.label_smoothing);
}
LinearCrossEntropyLoss::LinearCrossEntropyLoss(int64_t in_features, int64_t num_classes,
                                               Where where)
    : LinearCrossEntropyLoss(in_features, num_classes,
                             LinearCrossEntropyLossOptions{.by_name = {where}}) {}
void LinearCrossEntropyLoss::members(Members& m) {
  m("linear", linear);
  m.buffer("weight", options_.weight);
}
Variable LinearCrossEntropyLoss::forward(const Variable& x, const Variable& target,
                                         Where where) const {
  return linear_cross_entropy(x, linear.weight, target,
                              {.linear_bias = linear.bias,
                               .weight = options_.weight,
                               .reduction = options_.reduction,
                               .ignore_index = options_.ignore_index.value_or(-100),
                               .label_smoothing = options_.label_smoothing},
                              where);
}
void CrossEntropyLoss::members(Members& m) { m.buffer("weight", with.weight); }
void NLLLoss::members(Members& m) { m.buffer("weight", with.weight); }
void BCELoss::members(Members& m) { m.buffer("weight", with.weight); }
void BCEWithLogitsLoss::members(Members& m) {
  m.buffer("weight", with.weight).buffer("pos_weight", with.pos_weight);
}
KLDivLoss::KLDivLoss(const char* reduction, bool log_target, Where where)
    : KLDivLoss(KLDivOptions{{reduction, where}, log_target}) {}
}  // namespace tapegrad::nn
