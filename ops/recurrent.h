// Recurrent networks over whole sequences. Sequences are [time, batch, features], or with
// batch_first [batch, time, features]; or [time, features] of one example, whose states then lack
// the batch too.
//
// The weights stand in PyTorch's order: for every layer, and in it for every direction, w_ih
// [g hidden, features], w_hh [g hidden, hidden] and, in a network with biases, b_ih and b_hh
// [g hidden]. g is the number of gates; those of one cell follow each other along dimension 0.
#pragma once

#include <span>
#include <vector>

#include "core/base/generator.h"
#include "core/tape/variable.h"

namespace tapegrad {

struct RecurrentOptions {
  int64_t num_layers = 1;      // each after the first reads the states of the one before
  bool bidirectional = false;  // a second network reads backwards; features are concatenated
  bool batch_first = false;
  double dropout = 0.0;  // between layers, in training
  bool training = false;
};

/// Gates i, f, g, o: c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c').
/// {output, h_n, c_n}: the last layer's states at every step [time, batch, directions * hidden],
/// and the last states [layers * directions, batch, hidden]. h0 and c0 are zeros when empty.
/// ShapeError for weights or states that do not fit; ArgumentError for too many or too few.
std::vector<Variable> lstm(const Variable& x, const Variable& h0, const Variable& c0,
                           std::span<const Variable> weights, RecurrentOptions options = {},
                           Where where = Where::current());

/// Gates r, z, n: n = tanh(x_n + sigmoid(r) h_n), h' = (1 - sigmoid(z)) n + sigmoid(z) h, where h_n
/// has its bias inside the product. {output, h_n}.
std::vector<Variable> gru(const Variable& x, const Variable& h0, std::span<const Variable> weights,
                          RecurrentOptions options = {}, Where where = Where::current());

/// h' = tanh(w_ih x + b_ih + w_hh h + b_hh), or relu of it. {output, h_n}.
std::vector<Variable> rnn_tanh(const Variable& x, const Variable& h0,
                               std::span<const Variable> weights, RecurrentOptions options = {},
                               Where where = Where::current());
std::vector<Variable> rnn_relu(const Variable& x, const Variable& h0,
                               std::span<const Variable> weights, RecurrentOptions options = {},
                               Where where = Where::current());

}  // namespace tapegrad
