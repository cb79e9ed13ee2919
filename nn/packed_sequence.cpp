#include "nn/packed_sequence.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"
#include "core/base/internal/host_values.h"
#include "core/tape/internal/call_line.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/dropout.h"
#include "ops/index.h"
#include "ops/rearrange.h"
#include "ops/view.h"

namespace tapegrad::nn {
namespace {

using Indices = std::vector<int64_t>;

Variable index_of(const Indices& values, const Shape& shape, Device device) {
  return Variable(Tensor::from<int64_t>(values, shape).to(device));
}

Variable zeros_like_shape(const Variable& x, Shape shape) {
  return zeros(shape, {.dtype = x.dtype(), .device = x.device()});
}

/// Appends zeros along a dimension until it has the given size.
Variable padded_to(const Variable& x, int dim, int64_t size, double value = 0.0) {
  if (x.size(dim) == size) return x;
  Shape rest = x.shape();
  rest[dim] = size - x.size(dim);
  const Variable tail = full(rest, value, {.dtype = x.dtype(), .device = x.device()});
  return cat({{x, tail}}, dim);
}

/// Reverses the first lengths[i] steps of each sequence of x [time, batch, features].
Variable reversed(const Variable& x, const Indices& lengths) {
  const int64_t time = x.size(0), batch = x.size(1);
  Indices from;
  for (int64_t t = 0; t < time; ++t)
    for (const int64_t length : lengths) from.push_back(t < length ? length - 1 - t : t);
  return gather(x, 0, expand(index_of(from, {time, batch, 1}, x.device()), x.shape()));
}

/// Throws unless there is one length per sequence, from 1 to the number of time steps.
void check_lengths(const char* function, const Variable& padded,
                   const std::vector<int64_t>& lengths, bool batch_first) {
  if (padded.rank() < 2) fail<ShapeError>(function, ": ", padded.shape(), " has no time and batch");
  const int64_t time = padded.size(batch_first ? 1 : 0), batch = padded.size(batch_first ? 0 : 1);
  if (int64_t(lengths.size()) != batch || batch == 0)
    fail<ArgumentError>(function, ": ", lengths.size(), " lengths for ", batch, " sequences");
  for (const int64_t length : lengths)
    if (length < 1 || length > time)
      fail<ArgumentError>(function, ": the length ", length, " is outside [1, ", time, "]");
}

void check_state(const Variable& state, const Shape& wanted) {
  if (state.defined() && state.shape() != wanted)
    fail<ShapeError>("a packed sequence needs states of ", wanted, ", not ", state.shape());
}

struct States {
  Variable output, h, c;
};

/// Runs one layer in one direction. The lengths descend, and the first is x.size(0).
States run_forward(const PackedRun& layer, const Variable& x, const Indices& lengths,
                   std::span<const Variable> weights, Variable h, Variable c) {
  std::vector<Variable> outputs, last_h, last_c;
  int64_t start = 0, active = int64_t(lengths.size());
  while (active > 0) {
    const int64_t end = lengths[size_t(active - 1)];
    const Variable part = narrow(narrow(x, 0, start, end - start), 1, 0, active);
    const std::vector<Variable> y = layer.run(part, h, c, weights);
    outputs.push_back(padded_to(y[0], 1, int64_t(lengths.size())));
    const int64_t next =
        std::ranges::lower_bound(lengths, end, std::ranges::greater()) - lengths.begin();
    last_h.push_back(narrow(y[1], 1, next, active - next));
    if (y.size() > 2) last_c.push_back(narrow(y[2], 1, next, active - next));
    h = narrow(y[1], 1, 0, next);
    if (y.size() > 2) c = narrow(y[2], 1, 0, next);
    start = end;
    active = next;
  }
  std::ranges::reverse(last_h);
  std::ranges::reverse(last_c);
  return {cat(outputs, 0), cat(last_h, 1), last_c.empty() ? Variable() : cat(last_c, 1)};
}

/// Returns the positions of the sequences, the longest first.
Indices longest_first(const Indices& lengths) {
  Indices order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](int64_t i) { return lengths[size_t(i)]; });
  return order;
}

}  // namespace

Variable PackedSequence::batch_sizes() const {
  check_lengths("PackedSequence", padded, lengths, batch_first);
  Indices counts(size_t(std::ranges::max(lengths)), 0);
  for (const int64_t length : lengths)
    for (int64_t t = 0; t < length; ++t) ++counts[size_t(t)];
  return index_of(counts, {int64_t(counts.size())}, cpu);
}

Variable PackedSequence::data() const {
  check_lengths("PackedSequence", padded, lengths, batch_first);
  const Indices order = longest_first(lengths);
  const int64_t batch = int64_t(lengths.size());
  Indices rows;
  for (int64_t t = 0; t < lengths[size_t(order[0])]; ++t)
    for (const int64_t i : order)
      if (t < lengths[size_t(i)]) rows.push_back(t * batch + i);
  const Variable steps = flatten(batch_first ? transpose(padded, 0, 1) : padded, 0, 1);
  return index_select(steps, 0, index_of(rows, {int64_t(rows.size())}, steps.device()));
}

Variable pad_sequence(std::span<const Variable> sequences, bool batch_first, double padding_value) {
  if (sequences.empty()) fail<ArgumentError>("pad_sequence: no sequences");
  int64_t longest = 0;
  for (const Variable& x : sequences) {
    if (x.rank() == 0) fail<ShapeError>("pad_sequence: a sequence has no dimension of time");
    longest = std::max(longest, x.size(0));
  }
  std::vector<Variable> padded;
  for (const Variable& x : sequences) padded.push_back(padded_to(x, 0, longest, padding_value));
  return stack(padded, batch_first ? 0 : 1);
}

PackedSequence pack_padded_sequence(const Variable& padded, const Variable& lengths,
                                    bool batch_first, bool, Where where) {
  const ErrorLine line(where);
  if (is_float(lengths.dtype()))
    fail<DTypeError>("pack_padded_sequence: the lengths are ", lengths.dtype(), ", not integers");
  if (lengths.rank() != 1)
    fail<ShapeError>("pack_padded_sequence: the lengths have shape ", lengths.shape());
  return pack_padded_sequence(padded, tapegrad::detail::host_integers(lengths.value()), batch_first,
                              where);
}

PackedSequence pack_padded_sequence(const Variable& padded, std::vector<int64_t> lengths,
                                    bool batch_first, Where where) {
  const ErrorLine line(where);
  check_lengths("pack_padded_sequence", padded, lengths, batch_first);
  return {padded, std::move(lengths), batch_first};
}

PackedSequence pack_sequence(VariableList sequences, bool) {
  std::vector<int64_t> lengths;
  for (const Variable& x : sequences) lengths.push_back(x.size(0));
  return pack_padded_sequence(pad_sequence(sequences), std::move(lengths), false, Where());
}

std::pair<Variable, std::vector<int64_t>> pad_packed_sequence(const PackedSequence& packed) {
  return pad_packed_sequence(packed, packed.batch_first);
}

std::pair<Variable, std::vector<int64_t>> pad_packed_sequence(const PackedSequence& packed,
                                                              bool batch_first) {
  const auto& [padded, lengths, is_batch_first] = packed;
  check_lengths("pad_packed_sequence", padded, lengths, is_batch_first);
  const int64_t longest = std::ranges::max(lengths), batch = int64_t(lengths.size());
  Variable x = narrow(padded, is_batch_first ? 1 : 0, 0, longest);
  if (std::ranges::min(lengths) < longest) {
    Shape columns = Dims::filled(padded.rank(), 1), rows = columns;
    columns[is_batch_first ? 0 : 1] = batch;
    rows[is_batch_first ? 1 : 0] = longest;
    const Variable steps = reshape(arange(longest, {.dtype = i64, .device = x.device()}), rows);
    x = where(lt(steps, index_of(lengths, columns, x.device())), x, 0.0);
  }
  return {batch_first == is_batch_first ? x : transpose(x, 0, 1), lengths};
}

PackedLstmResult run_packed(const PackedRun& layer, const PackedSequence& packed,
                            const Variable& h0, const Variable& c0) {
  if (packed.padded.rank() != 3)
    fail<ShapeError>("a packed sequence has time, batch and features, not ", packed.padded.shape());
  check_lengths("a recurrent layer", packed.padded, packed.lengths, packed.batch_first);
  const int64_t batch = int64_t(packed.lengths.size()), directions = layer.bidirectional ? 2 : 1;
  check_state(h0, {layer.num_layers * directions, batch, layer.state_size});
  check_state(c0, {layer.num_layers * directions, batch, layer.hidden_size});
  const Device device = packed.padded.device();
  const Indices order = longest_first(packed.lengths);
  Indices lengths, back(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    lengths.push_back(packed.lengths[size_t(order[i])]);
    back[size_t(order[i])] = int64_t(i);
  }
  const Variable sort = index_of(order, {batch}, device), unsort = index_of(back, {batch}, device);
  const auto state_of = [&](const Variable& given, int64_t i, int64_t features) {
    return given.defined() ? index_select(narrow(given, 0, i, 1), 1, sort)
                           : zeros_like_shape(packed.padded, {1, batch, features});
  };

  Variable x = packed.batch_first ? transpose(packed.padded, 0, 1) : packed.padded;
  x = index_select(narrow(x, 0, 0, lengths.front()), 1, sort);
  const size_t per_run = layer.weights.size() / size_t(layer.num_layers * directions);
  std::vector<Variable> last_h, last_c;
  for (int64_t i = 0; i < layer.num_layers; ++i) {
    if (i > 0 && layer.dropout > 0) x = dropout(x, layer.dropout, true);
    std::vector<Variable> outputs;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t number = i * directions + direction;
      const Variable input = direction == 0 ? x : reversed(x, lengths);
      States y = run_forward(
          layer, input, lengths, layer.weights.subspan(size_t(number) * per_run, per_run),
          state_of(h0, number, layer.state_size), state_of(c0, number, layer.hidden_size));
      outputs.push_back(direction == 0 ? y.output : reversed(y.output, lengths));
      last_h.push_back(y.h);
      if (y.c.defined()) last_c.push_back(y.c);
    }
    x = directions == 1 ? outputs[0] : cat(outputs, 2);
  }
  x = index_select(x, 1, unsort);
  if (packed.batch_first) x = transpose(x, 0, 1);
  return {{x, packed.lengths, packed.batch_first},
          index_select(cat(last_h, 0), 1, unsort),
          last_c.empty() ? Variable() : index_select(cat(last_c, 0), 1, unsort)};
}

std::vector<Variable> unpad_sequence(const Variable& padded, const std::vector<int64_t>& lengths,
                                     bool batch_first) {
  const Variable by_batch = batch_first ? padded : transpose(padded, 0, 1);
  const int64_t longest = by_batch.size(1);
  if (int64_t(lengths.size()) != by_batch.size(0))
    fail<ArgumentError>("unpad_sequence: ", lengths.size(), " lengths for ", by_batch.size(0),
                        " sequences");
  std::vector<Variable> sequences;
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0 || lengths[i] > longest)
      fail<ArgumentError>("unpad_sequence: a length of ", lengths[i], " of ", longest);
    sequences.push_back(by_batch[i].narrow(0, 0, lengths[i]));
  }
  return sequences;
}
std::vector<Variable> unpad_sequence(const Variable& padded, const Variable& lengths,
                                     bool batch_first) {
  return unpad_sequence(padded, lengths.to_vector<int64_t>(), batch_first);
}
Variable pad_sequence(std::initializer_list<Variable> sequences, bool batch_first,
                      double padding_value) {
  return pad_sequence(std::span<const Variable>(sequences.begin(), sequences.size()), batch_first,
                      padding_value);
}
Variable pad_sequence(std::span<const Variable> sequences, PadSequenceOptions options) {
  return pad_sequence(sequences, options.batch_first, options.padding_value);
}
Variable pad_sequence(std::initializer_list<Variable> sequences, PadSequenceOptions options) {
  return pad_sequence(sequences, options.batch_first, options.padding_value);
}
PackedSequence pack_padded_sequence(const Variable& padded, const Variable& lengths,
                                    PackSequenceOptions options, Where where) {
  return pack_padded_sequence(padded, lengths, options.batch_first, true, where);
}
PackedSequence pack_padded_sequence(const Variable& padded, std::vector<int64_t> lengths,
                                    PackSequenceOptions options, Where where) {
  return pack_padded_sequence(padded, std::move(lengths), options.batch_first, where);
}
std::pair<Variable, std::vector<int64_t>> pad_packed_sequence(const PackedSequence& packed,
                                                              PackSequenceOptions options) {
  return pad_packed_sequence(packed, options.batch_first);
}
}  // namespace tapegrad::nn
