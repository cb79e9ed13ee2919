// Recurrent networks over whole sequences. A batch of sequences is [time, batch, features], or
// [batch, time, features] with batch_first. A single sequence is [time, features], and its states
// have no batch dimension.
//
// The weights have PyTorch's order: for every layer, and within the layer for every direction, w_ih
// [g hidden, features], w_hh [g hidden, hidden] and, with biases, b_ih and b_hh [g hidden]. g is
// the number of gates; the gates of a cell are concatenated along dimension 0. An LSTM with a
// projection also has w_hr [projected, hidden], and w_hh is [g hidden, projected].
#pragma once

#include <span>
#include <vector>

#include "core/base/generator.h"
#include "core/tape/variable.h"

namespace tapegrad {

struct RecurrentOptions {
  int64_t num_layers = 1;      // each layer reads the states of the previous layer
  bool bidirectional = false;  // adds a network that reads backwards; its features are appended
  bool batch_first = false;
  double dropout = 0.0;  // between layers, only when training
  bool training = false;
};

/// Runs a long short-term memory (LSTM). The gates are i, f, g and o: c' = sigmoid(f) c +
/// sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c'). Returns {output, h_n, c_n}: the states of the last
/// layer at every step [time, batch, directions * hidden], and the final states [layers *
/// directions, batch, hidden]. With a projection, h' = w_hr (sigmoid(o) tanh(c')), so output and
/// h_n have `projected` features. Empty h0 and c0 mean zeros. Throws ShapeError for weights or
/// states of a wrong shape, and ArgumentError for a wrong number of weights.
std::vector<Variable> lstm(const Variable& x, const Variable& h0, const Variable& c0,
                           std::span<const Variable> weights, RecurrentOptions options = {},
                           Where where = Where::current());

/// Runs a gated recurrent unit (GRU). The gates are r, z and n: n = tanh(x_n + sigmoid(r) h_n), h'
/// = (1 - sigmoid(z)) n + sigmoid(z) h, where h_n includes its bias. Returns {output, h_n} as lstm
/// does.
std::vector<Variable> gru(const Variable& x, const Variable& h0, std::span<const Variable> weights,
                          RecurrentOptions options = {}, Where where = Where::current());

/// Run Elman networks: h' = tanh(w_ih x + b_ih + w_hh h + b_hh), or relu in place of tanh. Return
/// {output, h_n} as lstm does.
std::vector<Variable> rnn_tanh(const Variable& x, const Variable& h0,
                               std::span<const Variable> weights, RecurrentOptions options = {},
                               Where where = Where::current());
std::vector<Variable> rnn_relu(const Variable& x, const Variable& h0,
                               std::span<const Variable> weights, RecurrentOptions options = {},
                               Where where = Where::current());

}  // namespace tapegrad
