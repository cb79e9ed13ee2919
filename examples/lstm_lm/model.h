// A language model of LSTM layers (Zaremba, Sutskever and Vinyals 2014, arXiv 1409.2329).
#pragma once

#include <vector>

#include <tapegrad/tapegrad.h>

namespace lstm_lm {

using tapegrad::Variable;
namespace nn = tapegrad::nn;

struct LanguageModelOptions {
  int64_t words, width = 200, layers = 2;
  double dropout = 0.0;
  double init = 0.1;  // all weights are uniform in [-init, init]
};

/// State of the LSTM layers: [layers, batch, width]. Empty variables are zeros.
struct LstmState {
  Variable h, c;
  /// Returns the same values without history: the gradient ends here (truncated backpropagation).
  LstmState detach() const { return {h.detach(), c.detach()}; }
};

struct LanguageModel : nn::Model<LanguageModel> {
  nn::Embedding embedding;
  nn::LSTM lstm;
  nn::Linear out;
  nn::Dropout dropout;

  explicit LanguageModel(const LanguageModelOptions& o)
      : embedding({.num_embeddings = o.words, .embedding_dim = o.width}),
        lstm({.input_size = o.width,
              .hidden_size = o.width,
              .num_layers = o.layers,
              .dropout = o.dropout}),
        out({.in_features = o.width, .out_features = o.words}),
        dropout(o.dropout) {
    for (Variable weight : parameters()) nn::init::uniform_(weight, -o.init, o.init);
  }
  void members(nn::Members& m) override {
    m("embedding", embedding)("lstm", lstm)("out", out)("dropout", dropout);
  }
  /// Maps ids [steps, batch] to logits [steps * batch, words], and moves the state on.
  Variable forward(const Variable& ids, LstmState& state) const {
    const std::vector<Variable> y = lstm(dropout(embedding(ids)), state.h, state.c);
    state = {y[1], y[2]};
    return out(dropout(flatten(y[0], 0, 1)));
  }
};

}  // namespace lstm_lm
