// Recurrent layers and attention.
#include "nn/attention.h"
#include "nn/recurrent.h"
#include "nn/transformer.h"
#include "ops/create.h"
#include "tests/torch_oracle/modules/recorder.h"

namespace tapegrad::torch_oracle {
namespace {

/// Without and with initial states, and with all options at once.
template <typename Layer, typename... More>
void recurrent(Recorder& record, const std::string& name, const std::string& options,
               const More&... more) {
  const Layer plain({.input_size = 3, .hidden_size = 4}, more...);
  const Variable x = record.normal({5, 2, 3});
  record.compare(name + "(3, 4" + options + ")", "m(*x)", plain, {x}, [&] { return plain(x); });
  const Layer layer({.input_size = 3,
                     .hidden_size = 4,
                     .num_layers = 2,
                     .bias = false,
                     .batch_first = true,
                     .bidirectional = true},
                    more...);
  record(name + "(3, 4, 2, bias=False, batch_first=True, bidirectional=True" + options + ")", layer,
         record.normal({2, 5, 3}), record.normal({4, 2, 4}));
}

void lstm(Recorder& record) {
  const nn::LSTM plain({.input_size = 3, .hidden_size = 4});
  const Variable x = record.normal({5, 2, 3});
  record.compare("LSTM(3, 4)", "m(*x)", plain, {x}, [&] { return plain(x); });
  const nn::LSTM deep({.input_size = 3,
                       .hidden_size = 4,
                       .num_layers = 2,
                       .bias = false,
                       .batch_first = true,
                       .bidirectional = true});
  const Variable y = record.normal({2, 5, 3}), h = record.normal({4, 2, 4});
  const Variable c = record.normal({4, 2, 4});
  record.compare("LSTM(3, 4, 2, bias=False, batch_first=True, bidirectional=True)",
                 "m(x[0], (x[1], x[2]))", deep, {y, h, c}, [&] { return deep(y, h, c); });
}

void attention(Recorder& record) {
  const nn::MultiheadAttention plain({.embed_dim = 6, .num_heads = 2});
  const Variable q = record.normal({4, 2, 6}), k = record.normal({5, 2, 6});
  const Variable v = record.normal({5, 2, 6});
  record.compare("MultiheadAttention(6, 2)", "m(*x)[0]", plain, {q, k, v},
                 [&] { return Variables{plain(q, k, v)}; });

  const nn::MultiheadAttention masked(
      {.embed_dim = 6, .num_heads = 3, .bias = false, .batch_first = true});
  const Variable x = record.normal({2, 4, 6}), added = record.normal({4, 4}).detach();
  const Variable left_out = tensor({0, 0, 0, 1, 0, 1, 0, 0}, {2, 4}).to(boolean);
  record.compare("MultiheadAttention(6, 3, bias=False, batch_first=True)",
                 "m(x[0], x[0], x[0], attn_mask=x[1], key_padding_mask=x[2])[0]", masked,
                 {x, added, left_out}, [&] {
                   return Variables{
                       masked.forward(x, x, x, {.attn_mask = added, .key_padding_mask = left_out})};
                 });

  const nn::MultiheadAttention wide({.embed_dim = 6, .num_heads = 2, .kdim = 4, .vdim = 5});
  const Variable keys = record.normal({5, 2, 4}), values = record.normal({5, 2, 5});
  record.compare("MultiheadAttention(6, 2, kdim=4, vdim=5)", "m(*x)", wide, {q, keys, values}, [&] {
    const auto [y, weights] = wide(q, keys, values);
    return Variables{y, weights};
  });
  const Variable alone = record.normal({4, 6}), mask = record.normal({2, 4, 4}).detach();
  record.compare(
      "MultiheadAttention(6, 2)", "m(x[0], x[0], x[0], attn_mask=x[1])", plain, {alone, mask}, [&] {
        const auto [y, weights] = plain.forward(alone, alone, alone, {.attn_mask = mask});
        return Variables{y, weights};
      });

  for (bool norm_first : {false, true}) {
    const nn::TransformerEncoderLayer layer({.d_model = 6,
                                             .nhead = 2,
                                             .dim_feedforward = 8,
                                             .dropout = 0.0,
                                             .activation = norm_first
                                                               ? nn::FeedforwardActivation::kGelu
                                                               : nn::FeedforwardActivation::kRelu,
                                             .batch_first = norm_first,
                                             .norm_first = norm_first});
    record(norm_first ? "TransformerEncoderLayer(6, 2, 8, 0.0, F.gelu, batch_first=True, "
                        "norm_first=True)"
                      : "TransformerEncoderLayer(6, 2, 8, 0.0)",
           layer, record.normal({3, 4, 6}));
    const nn::TransformerDecoderLayer decoder({.d_model = 6,
                                               .nhead = 2,
                                               .dim_feedforward = 8,
                                               .dropout = 0.0,
                                               .batch_first = norm_first,
                                               .norm_first = norm_first});
    record(norm_first ? "TransformerDecoderLayer(6, 2, 8, 0.0, batch_first=True, norm_first=True)"
                      : "TransformerDecoderLayer(6, 2, 8, 0.0)",
           decoder, record.normal({3, 4, 6}),
           record.normal(norm_first ? Shape{3, 5, 6} : Shape{5, 4, 6}));
  }
  const nn::Transformer transformer({.d_model = 6,
                                     .nhead = 2,
                                     .num_encoder_layers = 1,
                                     .num_decoder_layers = 2,
                                     .dim_feedforward = 8,
                                     .dropout = 0.0,
                                     .batch_first = true});
  const Variable source = record.normal({2, 4, 6}), target = record.normal({2, 3, 6});
  const Variable causal = nn::causal_mask(3);
  record.compare("Transformer(6, 2, 1, 2, 8, 0.0, batch_first=True)",
                 "m(x[0], x[1], tgt_mask=x[2])", transformer, {source, target, causal},
                 [&] { return Variables{transformer(source, target, {.tgt_mask = causal})}; });
}

}  // namespace

void sequence_rows(Recorder& record) {
  lstm(record);
  recurrent<nn::GRU>(record, "GRU", "");
  recurrent<nn::RNN>(record, "RNN", "");
  recurrent<nn::RNN>(record, "RNN", ", nonlinearity='relu'", nn::Nonlinearity::kRelu);
  attention(record);
}

}  // namespace tapegrad::torch_oracle
