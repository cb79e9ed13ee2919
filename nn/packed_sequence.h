// Batches of sequences of different lengths.
//
//   Variable x = nn::pad_sequence(sequences);               // [longest, batch, features]
//   auto [packed, h, c] = lstm(nn::pack_padded_sequence(x, lengths));
//   auto [y, lengths] = nn::pad_packed_sequence(packed);    // zeros behind the end of a sequence
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "core/tape/variable.h"

namespace tapegrad::nn {

/// Joins sequences [length, ...] into [longest, batch, ...], or [batch, longest, ...] with
/// batch_first. Shorter sequences end in padding_value.
Variable pad_sequence(std::span<const Variable> sequences, bool batch_first = false,
                      double padding_value = 0.0);

/// Padded sequences and their lengths, in any order. LSTM, GRU and RNN read only the elements
/// within the lengths.
struct PackedSequence {
  Variable padded;  // [time, batch, features], or [batch, time, features] with batch_first
  std::vector<int64_t> lengths;
  bool batch_first = false;
};

/// Throws ArgumentError unless there is one length for each sequence, from 1 to the number of time
/// steps. Unlike PyTorch's, it takes the lengths in any order.
PackedSequence pack_padded_sequence(const Variable& padded, std::vector<int64_t> lengths,
                                    bool batch_first = false);
PackedSequence pack_sequence(std::span<const Variable> sequences);
/// Returns the padded tensor and the lengths.
std::pair<Variable, std::vector<int64_t>> pad_packed_sequence(const PackedSequence& packed);

/// Result of an LSTM for a PackedSequence: the output at each step, zeros behind the lengths, and
/// the states after the last step of each sequence.
struct PackedLstmResult {
  PackedSequence output;
  Variable h, c;
};
/// Result of a GRU or RNN.
struct PackedResult {
  PackedSequence output;
  Variable h;
};

/// A recurrent layer for run_packed(). Not called by users.
struct PackedRun {
  /// Runs one layer in one direction over [time, batch, features]; returns {output, h_n[, c_n]}.
  std::function<std::vector<Variable>(const Variable& x, const Variable& h, const Variable& c,
                                      std::span<const Variable> weights)>
      run;
  std::span<const Variable> weights;
  int64_t num_layers, hidden_size;
  bool bidirectional;
  double dropout;  // 0 outside of training
};
/// Calls run() once for each layer, direction and distinct length, with the sequences that have not
/// ended: as many steps in sequence as the longest has, and no work for padding.
PackedLstmResult run_packed(const PackedRun& layer, const PackedSequence& x, const Variable& h0,
                            const Variable& c0);

}  // namespace tapegrad::nn
