// Distances, and losses with default and other options.
#include "nn/image.h"
#include "nn/loss.h"
#include "nn/margin_loss.h"
#include "ops/binary.h"
#include "ops/softmax.h"
#include "tests/torch_oracle/modules/recorder.h"

namespace tapegrad::torch_oracle {
namespace {

constexpr Reduction kSum = Reduction::kSum, kNone = Reduction::kNone;
const Shape kShape{4, 3};

Variable log_probabilities(Recorder& record, const Shape& shape, int dim) {
  return Variable(log_softmax(record.normal(shape), dim).value()).requires_grad_();
}

void elements(Recorder& record) {
  const auto x = [&] { return record.normal(kShape); };
  record("MSELoss()", nn::MSELoss(), x(), x());
  record("MSELoss(reduction='sum')", nn::MSELoss(kSum), x(), x());
  record("L1Loss()", nn::L1Loss(), x(), x());
  record("L1Loss(reduction='none')", nn::L1Loss(kNone), x(), x());
  record("SmoothL1Loss()", nn::SmoothL1Loss(), x(), x());
  record("SmoothL1Loss(beta=0.5, reduction='sum')",
         nn::SmoothL1Loss({.reduction = kSum, .beta = 0.5}), x(), x());
  record("HuberLoss()", nn::HuberLoss(), x(), x());
  record("HuberLoss(delta=0.5, reduction='none')",
         nn::HuberLoss({.reduction = kNone, .delta = 0.5}), x(), x());
  record("BCELoss()", nn::BCELoss(), record.unit(kShape), record.unit(kShape).detach());
  record("BCELoss(torch.ones(3), reduction='sum')",
         nn::BCELoss({.weight = record.positive({3}).detach(), .reduction = kSum}),
         record.unit(kShape), record.unit(kShape).detach());
  record("BCEWithLogitsLoss()", nn::BCEWithLogitsLoss(), x(), record.unit(kShape).detach());
  record("BCEWithLogitsLoss(torch.ones(3), pos_weight=torch.ones(3), reduction='none')",
         nn::BCEWithLogitsLoss({.weight = record.positive({3}).detach(),
                                .reduction = kNone,
                                .pos_weight = record.positive({3}).detach()}),
         x(), record.unit(kShape).detach());
  record("KLDivLoss()", nn::KLDivLoss(), log_probabilities(record, kShape, 1), record.unit(kShape));
  record("KLDivLoss(log_target=True, reduction='sum')",
         nn::KLDivLoss({.reduction = kSum, .log_target = true}),
         log_probabilities(record, kShape, 1), log_probabilities(record, kShape, 1));
  record("PoissonNLLLoss()", nn::PoissonNLLLoss(), x(), record.positive(kShape).detach());
  record("PoissonNLLLoss(log_input=False, full=True, reduction='sum')",
         nn::PoissonNLLLoss({.log_input = false, .full = true, .reduction = kSum}),
         record.positive(kShape), (4 * record.positive(kShape)).detach());
  record("GaussianNLLLoss()", nn::GaussianNLLLoss(), x(), x(), record.positive(kShape));
  record("GaussianNLLLoss(full=True, reduction='none')",
         nn::GaussianNLLLoss({.full = true, .reduction = kNone}), x(), x(),
         record.positive({4, 1}));
  record("SoftMarginLoss()", nn::SoftMarginLoss(), x(), record.sign(kShape));
  record("HingeEmbeddingLoss()", nn::HingeEmbeddingLoss(), x(), record.sign(kShape));
  record("HingeEmbeddingLoss(0.5, reduction='none')",
         nn::HingeEmbeddingLoss({.margin = 0.5, .reduction = kNone}), x(), record.sign(kShape));
}

void classes(Recorder& record) {
  const auto weight = [&] { return record.positive({5}).detach(); };
  record("CrossEntropyLoss()", nn::CrossEntropyLoss(), record.normal({4, 5}),
         record.ids(0, 5, {4}));
  record("CrossEntropyLoss(torch.ones(5), ignore_index=2, label_smoothing=0.1)",
         nn::CrossEntropyLoss({.weight = weight(), .ignore_index = 2, .label_smoothing = 0.1}),
         record.normal({4, 5, 3}), record.ids(0, 5, {4, 3}));
  record("CrossEntropyLoss(reduction='none')", nn::CrossEntropyLoss({.reduction = kNone}),
         record.normal({4, 5}), record.unit({4, 5}));
  record("NLLLoss()", nn::NLLLoss(), log_probabilities(record, {4, 5}, 1), record.ids(0, 5, {4}));
  record("NLLLoss(torch.ones(5), ignore_index=1, reduction='sum')",
         nn::NLLLoss({.weight = weight(), .ignore_index = 1, .reduction = kSum}),
         log_probabilities(record, {4, 5, 2}, 1), record.ids(0, 5, {4, 2}));
  record("MultiMarginLoss()", nn::MultiMarginLoss(), record.normal({4, 5}), record.ids(0, 5, {4}));
  record("MultiMarginLoss(2, 0.5, torch.ones(5), reduction='none')",
         nn::MultiMarginLoss({.p = 2, .margin = 0.5, .weight = weight(), .reduction = kNone}),
         record.normal({4, 5}), record.ids(0, 5, {4}));
  record("MultiLabelMarginLoss()", nn::MultiLabelMarginLoss(), record.normal({4, 5}),
         record.ids(-1, 5, {4, 5}));
  record("MultiLabelSoftMarginLoss()", nn::MultiLabelSoftMarginLoss(), record.normal({4, 5}),
         record.ids(0, 2, {4, 5}).to(record.dtype()));
  record("MultiLabelSoftMarginLoss(torch.ones(5), reduction='sum')",
         nn::MultiLabelSoftMarginLoss({.weight = weight(), .reduction = kSum}),
         record.normal({4, 5}), record.ids(0, 2, {4, 5}).to(record.dtype()));
  const nn::CTCLoss ctc, finite({.blank = 2, .reduction = kSum, .zero_infinity = true});
  const Variable logits = record.normal({6, 2, 5}), labels = record.ids(1, 5, {2, 3});
  record.compare("CTCLoss()", "m(x[0].log_softmax(2), x[1], [6, 5], [3, 2])", ctc, {logits, labels},
                 [&] {
                   return Variables{ctc.forward(log_softmax(logits, 2), labels, {6, 5}, {3, 2})};
                 });
  const Variable others = record.ids(3, 5, {2, 3});
  record.compare("CTCLoss(2, 'sum', True)", "m(x[0].log_softmax(2), x[1], [6, 1], [3, 2])", finite,
                 {logits, others}, [&] {
                   return Variables{finite.forward(log_softmax(logits, 2), others, {6, 1}, {3, 2})};
                 });
}

void pairs(Recorder& record) {
  const auto x = [&] { return record.normal(kShape); };
  record("TripletMarginLoss()", nn::TripletMarginLoss(), x(), x(), x());
  record("TripletMarginLoss(0.5, 1.5, swap=True, reduction='none')",
         nn::TripletMarginLoss({.margin = 0.5, .p = 1.5, .swap = true, .reduction = kNone}), x(),
         x(), x());
  record("MarginRankingLoss()", nn::MarginRankingLoss(), x(), x(), record.sign(kShape));
  record("MarginRankingLoss(0.5, reduction='sum')",
         nn::MarginRankingLoss({.margin = 0.5, .reduction = kSum}), x(), x(), record.sign(kShape));
  record("CosineEmbeddingLoss()", nn::CosineEmbeddingLoss(), x(), x(), record.sign({4}));
  record("CosineEmbeddingLoss(0.25, reduction='none')",
         nn::CosineEmbeddingLoss({.margin = 0.25, .reduction = kNone}), x(), x(), record.sign({4}));
  record("CosineSimilarity()", nn::CosineSimilarity(), x(), x());
  record("CosineSimilarity(0, 0.01)", nn::CosineSimilarity(0, 0.01), x(), x());
  record("PairwiseDistance()", nn::PairwiseDistance(), x(), x());
  record("PairwiseDistance(3, 0.01, True)", nn::PairwiseDistance(3, 0.01, true), x(), x());
}

}  // namespace

void loss_rows(Recorder& record) {
  elements(record);
  classes(record);
  pairs(record);
}

}  // namespace tapegrad::torch_oracle
