#include <cmath>

#include "tests/cases/drawn_cases.h"
#include "tests/cases/op_case.h"
#include "tests/cases/references.h"

namespace tapegrad::testing {
namespace {

using Values = std::vector<double>;

/// w x + b; the bias is optional.
Values affine(const Array& w, const Array* b, const Values& x) {
  Values y(size_t(w.shape[0]));
  for (size_t i = 0; i < y.size(); ++i) {
    if (b != nullptr) y[i] = b->values[i];
    for (size_t j = 0; j < x.size(); ++j) y[i] += w.values[i * x.size() + j] * x[j];
  }
  return y;
}

struct RecurrentSetting {
  std::string op;
  int layers = 1;
  bool bidirectional = false, batch_first = false, bias = true, states = true;

  int gates() const { return op == "lstm" ? 4 : op == "gru" ? 3 : 1; }
  int directions() const { return bidirectional ? 2 : 1; }

  /// Returns the next h and updates c, from the input part and the state part of the gates.
  Values step(const Values& x, const Values& h_part, const Values& h, Values& c) const {
    const size_t n = h.size();
    Values next(n);
    for (size_t i = 0; i < n; ++i) {
      const auto gate = [&](size_t k) { return x[k * n + i] + h_part[k * n + i]; };
      if (op == "lstm") {
        c[i] = sigmoid(gate(1)) * c[i] + sigmoid(gate(0)) * std::tanh(gate(2));
        next[i] = sigmoid(gate(3)) * std::tanh(c[i]);
      } else if (op == "gru") {
        const double r = sigmoid(gate(0)), z = sigmoid(gate(1));
        next[i] = (1 - z) * std::tanh(x[2 * n + i] + r * h_part[2 * n + i]) + z * h[i];
      } else {
        next[i] = op == "rnn_tanh" ? std::tanh(gate(0)) : std::fmax(gate(0), 0.0);
      }
    }
    return next;
  }

  /// States of the last layer at every step of one example.
  std::vector<Values> run(std::vector<Values> x, size_t example, size_t batch,
                          const std::vector<Array>& in) const {
    const size_t fixed = op == "lstm" ? 3 : 2, per_cell = bias ? 4 : 2;
    for (int layer = 0; layer < layers; ++layer) {
      std::vector<Values> y(x.size());
      for (int direction = 0; direction < directions(); ++direction) {
        const size_t cell = size_t(layer * directions() + direction);
        const Array* w = &in[fixed + cell * per_cell];
        const size_t hidden = size_t(w[1].shape[1]);
        const auto first = [&](size_t input) {
          Values state(hidden);
          for (size_t i = 0; states && i < hidden; ++i)
            state[i] = in[input].values[(cell * batch + example) * hidden + i];
          return state;
        };
        Values h = first(1), c = op == "lstm" ? first(2) : Values();
        for (size_t i = 0; i < x.size(); ++i) {
          const size_t t = direction == 0 ? i : x.size() - 1 - i;
          h = step(affine(w[0], bias ? &w[2] : nullptr, x[t]),
                   affine(w[1], bias ? &w[3] : nullptr, h), h, c);
          y[t].insert(y[t].end(), h.begin(), h.end());
        }
      }
      x = y;
    }
    return x;
  }

  Array operator()(const std::vector<Array>& in) const {
    const Shape& s = in[0].shape;
    const bool single = s.rank() == 2;
    const int64_t steps = batch_first ? s[1] : s[0];
    const int64_t batch = single ? 1 : batch_first ? s[0] : s[1], features = s[s.rank() - 1];
    std::vector<std::vector<Values>> results;
    for (int64_t n = 0; n < batch; ++n) {
      std::vector<Values> x(static_cast<size_t>(steps));
      for (int64_t t = 0; t < steps; ++t)
        for (int64_t k = 0; k < features; ++k)
          x[size_t(t)].push_back(
              in[0].values[(batch_first ? n * steps + t : t * batch + n) * features + k]);
      results.push_back(run(x, size_t(n), size_t(batch), in));
    }
    Array y{s, {}};
    y.shape[s.rank() - 1] = int64_t(results[0][0].size());
    for_each_index(y.shape, [&](int64_t, const std::vector<int64_t>& at) {
      const int64_t t = batch_first ? at[1] : at[0], n = single ? 0 : batch_first ? at[0] : at[1];
      y.values.push_back(results[size_t(n)][size_t(t)][size_t(at.back())]);
    });
    return y;
  }
};

OpCase recurrence(Shape x, const RecurrentSetting& s, int64_t hidden = 2) {
  const int64_t cells = s.layers * s.directions();
  OpCase row{.op = s.op,
             .inputs = {Input{x}, std::nullopt},
             .attributes = {{"num_layers", int64_t(s.layers)},
                            {"bidirectional", s.bidirectional},
                            {"batch_first", s.batch_first}},
             .reference = s,
             .tolerance = 64};
  if (s.op == "lstm") row.inputs.resize(3);
  const int64_t batch = x.rank() == 2 ? 1 : x[s.batch_first ? 0 : 1];
  if (s.states)
    for (size_t i = 1; i < row.inputs.size(); ++i)
      row.inputs[i] = Input{x.rank() == 2 ? Shape{cells, hidden} : Shape{cells, batch, hidden}};
  for (int64_t cell = 0; cell < cells; ++cell) {
    const int64_t rows = s.gates() * hidden;
    const int64_t features = cell < s.directions() ? x[x.rank() - 1] : hidden * s.directions();
    row.list.push_back(Input{{rows, features}});
    row.list.push_back(Input{{rows, hidden}});
    if (s.bias)
      for (int i = 0; i < 2; ++i) row.list.push_back(Input{{rows}});
  }
  return row;
}

}  // namespace

void draw_recurrent(OpCases& cases, Choices& choices) {
  // rnn_relu has points without a derivative
  const RecurrentSetting s{.op = choices.of({"lstm", "gru", "rnn_tanh"}),
                           .layers = int(choices.between(1, 3)),
                           .bidirectional = choices.flag(),
                           .batch_first = choices.flag(),
                           .bias = choices.flag(),
                           .states = choices.flag()};
  const Shape x = draw_shape(choices, 3, 5);
  cases.push_back(recurrence(x, s, choices.between(1, 5)));
}

void recurrent_cases(OpCases& cases) {
  const auto add = [&](Shape x, const RecurrentSetting& s) { cases.push_back(recurrence(x, s)); };
  for (const std::string op : {"lstm", "gru", "rnn_tanh", "rnn_relu"}) {
    add({3, 2, 3}, {op});
    add({2, 3, 2}, {.op = op, .bidirectional = true, .batch_first = true, .bias = false});
    add({3, 2}, {.op = op, .states = false});
  }
  add({2, 1, 2}, {.op = "lstm", .layers = 2, .bidirectional = true});
  add({2, 2, 1}, {.op = "gru", .layers = 2, .states = false});
}

}  // namespace tapegrad::testing
