// Batches of sequences of different lengths.
//
//   Variable x = nn::pad_sequence(sequences);               // [longest, batch, features]
//   auto [packed, h, c] = lstm(nn::pack_padded_sequence(x, lengths));
//   auto [y, lengths] = nn::pad_packed_sequence(packed);    // zeros after the end of a sequence
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "core/tape/variable.h"

namespace tapegrad::nn {

/// Joins sequences [length, ...] into [longest, batch, ...], or [batch, longest, ...] with
/// batch_first. Shorter sequences are filled up with padding_value.
Variable pad_sequence(std::span<const Variable> sequences, bool batch_first = false,
                      double padding_value = 0.0);

Variable pad_sequence(std::initializer_list<Variable> sequences, bool batch_first = false,
                      double padding_value = 0.0);

struct PadSequenceOptions {
  bool batch_first = false;
  double padding_value = 0.0;
};
Variable pad_sequence(std::span<const Variable> sequences, PadSequenceOptions options);
Variable pad_sequence(std::initializer_list<Variable> sequences, PadSequenceOptions options);

/// Returns the sequences of padded sequences, each without its padding: the inverse of
/// pad_sequence(). Throws ArgumentError for a length that is negative or exceeds the padded one.
std::vector<Variable> unpad_sequence(const Variable& padded, const std::vector<int64_t>& lengths,
                                     bool batch_first = false);
std::vector<Variable> unpad_sequence(const Variable& padded, const Variable& lengths,
                                     bool batch_first = false);

/// Padded sequences and their lengths, in any order. LSTM, GRU and RNN read only the elements
/// within the lengths. The functions below throw ArgumentError unless there is one length for each
/// sequence, from 1 to the number of time steps.
struct PackedSequence {
  Variable padded;  // [time, batch, features], or [batch, time, features] with batch_first
  std::vector<int64_t> lengths;
  bool batch_first = false;

  /// Returns the number of sequences that have not ended, for each time step, int64. PyTorch's
  /// attribute batch_sizes.
  Variable batch_sizes() const;
  /// Returns the elements within the lengths, time step after time step, each with the longest
  /// sequence first: [sum of the lengths, features]. PyTorch's attribute data.
  Variable data() const;
};

/// Makes a PackedSequence. In contrast to PyTorch's function, the lengths may be in any order.
PackedSequence pack_padded_sequence(const Variable& padded, std::vector<int64_t> lengths,
                                    bool batch_first = false, Where where = Where::current());
/// Overload with the lengths as an integer Variable. `enforce_sorted` has no effect.
PackedSequence pack_padded_sequence(const Variable& padded, const Variable& lengths,
                                    bool batch_first = false, bool enforce_sorted = true,
                                    Where where = Where::current());
template <std::same_as<bool> B>
PackedSequence pack_padded_sequence(const Variable& padded, std::vector<int64_t> lengths,
                                    bool batch_first, B /*enforce_sorted*/,
                                    Where where = Where::current()) {
  return pack_padded_sequence(padded, std::move(lengths), batch_first, where);
}
struct PackSequenceOptions {
  bool batch_first = false;
  bool enforce_sorted = true;  // no effect
};
PackedSequence pack_padded_sequence(const Variable& padded, const Variable& lengths,
                                    PackSequenceOptions options, Where where = Where::current());
PackedSequence pack_padded_sequence(const Variable& padded, std::vector<int64_t> lengths,
                                    PackSequenceOptions options, Where where = Where::current());
/// `enforce_sorted` has no effect.
PackedSequence pack_sequence(VariableList sequences, bool enforce_sorted = true);
/// Returns the padded tensor and the lengths. The tensor is as long as the longest sequence, with
/// zeros after the end of each sequence.
std::pair<Variable, std::vector<int64_t>> pad_packed_sequence(const PackedSequence& packed);
std::pair<Variable, std::vector<int64_t>> pad_packed_sequence(const PackedSequence& packed,
                                                              bool batch_first);
std::pair<Variable, std::vector<int64_t>> pad_packed_sequence(const PackedSequence& packed,
                                                              PackSequenceOptions options);

/// Result of an LSTM for a PackedSequence: the output at each step, with zeros after the end of
/// each sequence, and the states after the last step of each sequence.
struct PackedLstmResult {
  PackedSequence output;
  Variable h, c;
};
/// Result of a GRU or RNN.
struct PackedResult {
  PackedSequence output;
  Variable h;
};

/// A recurrent layer for run_packed(). Not for users.
struct PackedRun {
  /// Runs one layer in one direction over [time, batch, features]; returns {output, h_n[, c_n]}.
  std::function<std::vector<Variable>(const Variable& x, const Variable& h, const Variable& c,
                                      std::span<const Variable> weights)>
      run;
  std::span<const Variable> weights;
  int64_t num_layers, hidden_size, state_size;  // features of c and of h
  bool bidirectional;
  double dropout;  // 0 outside of training
};
/// Calls run() once for each layer, direction and distinct length, with the sequences that have not
/// ended. Sequentially it takes as many steps as the longest sequence has, and no work for padding.
PackedLstmResult run_packed(const PackedRun& layer, const PackedSequence& x, const Variable& h0,
                            const Variable& c0);

// PyTorch's names:
namespace utils::rnn {
using nn::pack_padded_sequence;
using nn::pack_sequence;
using nn::PackedSequence;
using nn::pad_packed_sequence;
using nn::pad_sequence;
using nn::unpad_sequence;
}  // namespace utils::rnn

}  // namespace tapegrad::nn
