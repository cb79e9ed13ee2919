// Rarer options of recurrent layers, attention and losses, and inputs without a batch dimension.
#include "nn/attention.h"
#include "nn/loss.h"
#include "nn/margin_loss.h"
#include "nn/recurrent.h"
#include "nn/transformer.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/softmax.h"
#include "tests/torch_oracle/modules/recorder.h"

namespace tapegrad::torch_oracle {
namespace {

constexpr Reduction kSum = Reduction::kSum, kNone = Reduction::kNone;

/// One layer with and without a batch, in one and both directions.
template <typename Layer>
void recurrent(Recorder& record, const std::string& name) {
  for (const bool both : {false, true})
    for (const bool bias : {false, true}) {
      const Layer layer({.input_size = 3,
                         .hidden_size = 2,
                         .num_layers = 3,
                         .bias = bias,
                         .dropout = 0.5,
                         .bidirectional = both});
      const auto still = evaluated(layer);
      const Variable x = record.normal({4, 3}), h = record.normal({both ? 6 : 3, 2});
      const std::string torch = name + "(3, 2, 3, dropout=0.5, bias=" + (bias ? "True" : "False") +
                                ", bidirectional=" + (both ? "True)" : "False)");
      record.compare(torch, "m(*x)", still, {x}, [&] { return still(x); });
      if constexpr (std::same_as<Layer, nn::LSTM>) {
        const Variable c = record.normal({both ? 6 : 3, 2});
        record.compare(torch, "m(x[0], (x[1], x[2]))", still, {x, h, c},
                       [&] { return still(x, h, c); });
        const Layer projected({.input_size = 3,
                               .hidden_size = 4,
                               .num_layers = 2,
                               .bias = bias,
                               .batch_first = true,
                               .bidirectional = both,
                               .proj_size = 2});
        const Variable y = record.normal({2, 5, 3});
        record.compare(std::string("LSTM(3, 4, 2, batch_first=True, proj_size=2, bias=") +
                           (bias ? "True" : "False") +
                           ", bidirectional=" + (both ? "True)" : "False)"),
                       "m(*x)", projected, {y}, [&] { return projected(y); });
      } else {
        record.compare(torch, "m(*x)", still, {x, h}, [&] { return still(x, h); });
      }
    }
}

void attention(Recorder& record) {
  const Variable q = record.normal({2, 4, 6}), k = record.normal({2, 5, 6});
  const Variable float_mask = record.normal({4, 5}).detach();
  const Variable bool_mask = record.ids(0, 3, {4, 5}).eq(0);
  const Variable each = record.ids(0, 3, {4, 4, 5}).eq(0);
  const Variable padding = tensor({0, 0, 0, 1, 1, 0, 0, 0, 0, 1}, {2, 5}).to(boolean);
  const Variable float_padding = record.normal({2, 5}).detach();
  const nn::MultiheadAttention layer({.embed_dim = 6, .num_heads = 2, .batch_first = true});
  const auto row = [&](const std::string& call, const Variables& x, const nn::AttentionMasks& masks,
                       bool average = true) {
    nn::AttentionMasks own = masks;
    own.average_attn_weights = average;
    record.compare("MultiheadAttention(6, 2, batch_first=True)", call, layer, x, [&] {
      const auto [y, weights] = layer.forward(q, k, k, own);
      return Variables{y, weights};
    });
  };
  row("m(x[0], x[1], x[1], attn_mask=x[2])", {q, k, float_mask}, {.attn_mask = float_mask});
  row("m(x[0], x[1], x[1], attn_mask=x[2])", {q, k, bool_mask}, {.attn_mask = bool_mask});
  row("m(x[0], x[1], x[1], attn_mask=x[2], key_padding_mask=x[3])", {q, k, each, padding},
      {.attn_mask = each, .key_padding_mask = padding});
  row("m(x[0], x[1], x[1], attn_mask=x[2], key_padding_mask=x[3])",
      {q, k, float_mask, float_padding},
      {.attn_mask = float_mask, .key_padding_mask = float_padding});
  row("m(x[0], x[1], x[1], key_padding_mask=x[2], average_attn_weights=False)", {q, k, padding},
      {.key_padding_mask = padding}, /*average=*/false);
  const nn::MultiheadAttention still =
      evaluated(nn::MultiheadAttention({.embed_dim = 6, .num_heads = 3, .dropout = 0.5}));
  const Variable own = record.normal({4, 6});
  record.compare("MultiheadAttention(6, 3, dropout=0.5)",
                 "m(x[0], x[0], x[0], need_weights=False, is_causal=True, "
                 "attn_mask=torch.ones(4, 4).triu(1).bool())[0]",
                 still, {own},
                 [&] { return Variables{still.forward(own, own, own, {.is_causal = true})}; });
}

void transformers(Recorder& record) {
  const Variable x = record.normal({2, 4, 6}), memory = record.normal({2, 3, 6});
  const Variable padding = tensor({0, 0, 0, 1, 0, 0, 1, 1}, {2, 4}).to(boolean);
  const Variable memory_padding = tensor({0, 0, 1, 0, 0, 0}, {2, 3}).to(boolean);
  const Variable causal = nn::causal_mask(4);
  for (const bool norm_first : {false, true}) {
    const std::string first = norm_first ? ", norm_first=True" : "";
    const nn::TransformerEncoderLayer layer({.d_model = 6,
                                             .nhead = 3,
                                             .dim_feedforward = 5,
                                             .dropout = 0.0,
                                             .activation = "gelu",
                                             .layer_norm_eps = 0.01,
                                             .batch_first = true,
                                             .norm_first = norm_first});
    const std::string name = "(6, 3, 5, 0.0, F.gelu, 0.01, batch_first=True" + first + ")";
    record.compare("TransformerEncoderLayer" + name, "m(x[0], src_mask=x[1])", layer, {x, causal},
                   [&] { return Variables{layer(x, {.src_mask = causal})}; });
    const nn::TransformerEncoder encoder(layer, 2, nn::LayerNorm(6));
    record.compare("TransformerEncoder(TransformerEncoderLayer" + name + ", 2, LayerNorm(6))",
                   "m(x[0], src_key_padding_mask=x[1])", encoder, {x, padding},
                   [&] { return Variables{encoder(x, {.src_key_padding_mask = padding})}; });
    const auto still = evaluated(encoder);
    record.compare("TransformerEncoder(TransformerEncoderLayer" + name + ", 2, LayerNorm(6))",
                   "m(x[0], mask=torch.ones(4, 4).triu(1).bool(), is_causal=True)", still, {x},
                   [&] { return Variables{still(x, {.is_causal = true})}; });
    const nn::TransformerDecoderLayer part({.d_model = 6,
                                            .nhead = 3,
                                            .dim_feedforward = 5,
                                            .dropout = 0.0,
                                            .activation = "gelu",
                                            .layer_norm_eps = 0.01,
                                            .batch_first = true,
                                            .norm_first = norm_first});
    const nn::TransformerDecoder decoder(part, 2);
    record.compare("TransformerDecoder(TransformerDecoderLayer" + name + ", 2)",
                   "m(x[0], x[1], tgt_mask=x[2], tgt_key_padding_mask=torch.where(x[3], "
                   "-torch.inf, 0.0).double(), memory_key_padding_mask=x[4])",
                   decoder, {x, memory, causal, padding, memory_padding}, [&] {
                     return Variables{decoder(x, memory,
                                              {.tgt_mask = causal,
                                               .tgt_key_padding_mask = padding,
                                               .memory_key_padding_mask = memory_padding})};
                   });
  }
}

void losses(Recorder& record) {
  const auto weight = [&] { return record.positive({5}).detach(); };
  const auto log_probabilities = [&](const Shape& shape) {
    return Variable(log_softmax(record.normal(shape), shape.size() > 1 ? 1 : 0).value())
        .requires_grad_();
  };
  for (const auto& [name, reduction] :
       {std::pair("sum", kSum), {"mean", Reduction::kMean}, {"none", kNone}}) {
    const std::string tail = ", reduction='" + std::string(name) + "')";
    record("CrossEntropyLoss(torch.ones(5), ignore_index=2" + tail,
           nn::CrossEntropyLoss({.weight = weight(), .ignore_index = 2, .reduction = reduction}),
           record.normal({4, 5, 2, 3}), record.ids(0, 5, {4, 2, 3}));
    record("CrossEntropyLoss(torch.ones(5), ignore_index=-1, label_smoothing=0.3" + tail,
           nn::CrossEntropyLoss({.weight = weight(),
                                 .ignore_index = -1,
                                 .reduction = reduction,
                                 .label_smoothing = 0.3}),
           record.normal({6, 5}), record.ids(-1, 5, {6}));
    record(
        "CrossEntropyLoss(torch.ones(5), label_smoothing=0.3" + tail,
        nn::CrossEntropyLoss({.weight = weight(), .reduction = reduction, .label_smoothing = 0.3}),
        record.normal({4, 5, 3}), record.unit({4, 5, 3}).detach());
    record(
        "CrossEntropyLoss(torch.ones(5), label_smoothing=0.3" + tail,
        nn::CrossEntropyLoss({.weight = weight(), .reduction = reduction, .label_smoothing = 0.3}),
        record.normal({5}), record.ids(0, 5, {}));
    record("CrossEntropyLoss(label_smoothing=1.0" + tail,
           nn::CrossEntropyLoss({.reduction = reduction, .label_smoothing = 1.0}),
           record.normal({5}), record.unit({5}).detach());
    record("NLLLoss(torch.ones(5), ignore_index=-1" + tail,
           nn::NLLLoss({.weight = weight(), .ignore_index = -1, .reduction = reduction}),
           log_probabilities({4, 5, 2, 3}), record.ids(-1, 5, {4, 2, 3}));
    record("NLLLoss(torch.ones(5), ignore_index=3" + tail,
           nn::NLLLoss({.weight = weight(), .ignore_index = 3, .reduction = reduction}),
           log_probabilities({5}), record.ids(0, 5, {}));
    record("MultiMarginLoss(1, 0.7, torch.ones(5)" + tail,
           nn::MultiMarginLoss({.p = 1, .margin = 0.7, .weight = weight(), .reduction = reduction}),
           record.normal({5}), record.ids(0, 5, {}));
    record("MultiLabelMarginLoss(" + tail.substr(2), nn::MultiLabelMarginLoss(reduction),
           record.normal({5}), record.ids(-1, 5, {5}));
    record("MultiLabelSoftMarginLoss(torch.ones(5)" + tail,
           nn::MultiLabelSoftMarginLoss({.weight = weight(), .reduction = reduction}),
           record.normal({5}), record.ids(0, 2, {5}).to(record.dtype()));
    record("GaussianNLLLoss(full=True" + tail,
           nn::GaussianNLLLoss({.full = true, .reduction = reduction}), record.normal({4, 3}),
           record.normal({4, 3}), record.positive({4}));
    record("PoissonNLLLoss(full=True" + tail,
           nn::PoissonNLLLoss({.full = true, .reduction = reduction}), record.normal({4, 3}),
           (4 * record.positive({4, 3})).detach());
    record("TripletMarginLoss(2.0, 1" + tail,
           nn::TripletMarginLoss({.margin = 2.0, .p = 1, .reduction = reduction}),
           record.normal({3}), record.normal({3}), record.normal({3}));
    record("CosineEmbeddingLoss(-0.5" + tail,
           nn::CosineEmbeddingLoss({.margin = -0.5, .reduction = reduction}), record.normal({3}),
           record.normal({3}), record.sign({}));
    record("HingeEmbeddingLoss(2.0" + tail,
           nn::HingeEmbeddingLoss({.margin = 2.0, .reduction = reduction}), record.normal({}),
           record.sign({}));
    record("SmoothL1Loss(beta=0.0" + tail, nn::SmoothL1Loss({.reduction = reduction, .beta = 0.0}),
           record.normal({4, 3}), record.normal({4, 3}));
    record("MSELoss(" + tail.substr(2), nn::MSELoss(reduction), record.normal({0, 3}),
           record.normal({0, 3}));
    record("BCEWithLogitsLoss(pos_weight=torch.ones(3)" + tail,
           nn::BCEWithLogitsLoss(
               {.reduction = reduction, .pos_weight = record.positive({3}).detach()}),
           record.normal({4, 3}), record.unit({4, 3}));
    record("MarginRankingLoss(-0.2" + tail,
           nn::MarginRankingLoss({.margin = -0.2, .reduction = reduction}), record.normal({4, 3}),
           record.normal({4, 3}), record.sign({4, 3}));
  }
  record("KLDivLoss(reduction='batchmean')", nn::KLDivLoss("batchmean"), log_probabilities({4, 5}),
         record.unit({4, 5}));
  record("KLDivLoss(reduction='batchmean', log_target=True)", nn::KLDivLoss("batchmean", true),
         log_probabilities({5}), log_probabilities({5}));
}

}  // namespace

void sequence_option_rows(Recorder& record) {
  recurrent<nn::LSTM>(record, "LSTM");
  recurrent<nn::GRU>(record, "GRU");
  recurrent<nn::RNN>(record, "RNN");
  attention(record);
  transformers(record);
  losses(record);
}

}  // namespace tapegrad::torch_oracle
