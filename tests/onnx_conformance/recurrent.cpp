// LSTM, GRU and RNN with ONNX's order of gates, step by step.
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/matmul.h"
#include "ops/unary.h"
#include "ops/view.h"
#include "tests/onnx_conformance/value.h"

namespace tapegrad::onnx_conformance {
namespace {

using N = const Node&;

/// Weights and initial states of one direction.
struct Cell {
  Variable w, r, input_bias, state_bias, h, c, peephole;

  Cell(N n, int64_t direction, int64_t gates, const Variable& h0, const Variable& c0) {
    const auto own = [&](const Variable& x) { return select(x, 0, direction); };
    w = t(own(n[1]));
    r = t(own(n[2]));
    const int64_t size = gates * r.size(0);
    const Variable bias = n.has(3) ? own(n[3]) : zeros({2 * size}, {.dtype = w.dtype()});
    input_bias = narrow(bias, 0, 0, size);
    state_bias = narrow(bias, 0, size, size);
    h = own(h0);
    if (c0.defined()) c = own(c0);
    if (n.has(7)) peephole = own(n[7]);
  }
};

using Step = std::function<void(Cell&, const Variable& x)>;

/// Returns Y, Y_h and Y_c of all directions.
Values unrolled(N n, int64_t gates, const Step& step, bool has_c) {
  if (n.has("activations") || n.has("clip")) throw Unsupported(n.op + " with other activations");
  if (n.has(4)) {
    const Ints lengths = n.ints_at(4);
    const int64_t steps = n[0].size(n.flag("layout", false) ? 1 : 0);
    for (int64_t length : lengths)
      if (length != steps) throw Unsupported(n.op + " of sequences of different lengths");
  }
  const bool batch_first = n.flag("layout", false);
  const auto turned = [&](const Variable& x) { return batch_first ? transpose(x, 0, 1) : x; };
  const Variable x = turned(n[0]);
  const int64_t steps = x.size(0), directions = n[1].size(0), hidden = n[2].size(2);
  const Variable nothing = zeros({directions, x.size(1), hidden}, {.dtype = x.dtype()});
  const Variable h0 = n.has(5) ? turned(n[5]) : nothing;
  const Variable c0 = !has_c ? Variable() : n.has(6) ? turned(n[6]) : nothing;
  Values states, last_h, last_c;
  for (int64_t d = 0; d < directions; ++d) {
    const bool backwards = d == 1 || n.text("direction", "forward") == "reverse";
    Cell cell(n, d, gates, h0, c0);
    Values h(static_cast<size_t>(steps));
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t time = backwards ? steps - 1 - i : i;
      step(cell, select(x, 0, time));
      h[size_t(time)] = cell.h;
    }
    states.push_back(stack(h, 0));
    last_h.push_back(cell.h);
    if (has_c) last_c.push_back(cell.c);
  }
  const Variable y = stack(states, 1);  // [steps, directions, batch, hidden]
  Values results{batch_first ? permute(y, {2, 0, 1, 3}) : y, turned(stack(last_h, 0))};
  if (has_c) results.push_back(turned(stack(last_c, 0)));
  return results;
}

/// w x + b and r h + b for all gates, concatenated.
Variable from_input(const Cell& cell, const Variable& x) {
  return matmul(x, cell.w) + cell.input_bias;
}
Variable from_state(const Cell& cell) { return matmul(cell.h, cell.r) + cell.state_bias; }

void lstm_step(Cell& cell, const Variable& x) {
  const int64_t size = cell.h.size(1);
  const Values gates = split(from_input(cell, x) + from_state(cell), size, 1);  // i, o, f, c
  const auto peek = [&](int64_t gate, const Variable& c) -> Variable {
    return cell.peephole.defined() ? narrow(cell.peephole, 0, gate * size, size) * c
                                   : zeros_like(c);
  };
  const Variable i = sigmoid(gates[0] + peek(0, cell.c)), f = sigmoid(gates[2] + peek(2, cell.c));
  cell.c = f * cell.c + i * tanh(gates[3]);
  cell.h = sigmoid(gates[1] + peek(1, cell.c)) * tanh(cell.c);
}

Step gru_step(bool linear_before_reset) {
  return [=](Cell& cell, const Variable& x) {
    const int64_t size = cell.h.size(1);
    const Values in = split(from_input(cell, x), size, 1);  // z, r, h
    const Values state = split(from_state(cell), size, 1);
    const Variable z = sigmoid(in[0] + state[0]), r = sigmoid(in[1] + state[1]);
    const Variable own = linear_before_reset
                             ? r * state[2]
                             : matmul(r * cell.h, narrow(cell.r, 1, 2 * size, size)) +
                                   narrow(cell.state_bias, 0, 2 * size, size);
    cell.h = (1 - z) * tanh(in[2] + own) + z * cell.h;
  };
}

void rnn_step(Cell& cell, const Variable& x) {
  cell.h = tanh(from_input(cell, x) + from_state(cell));
}

}  // namespace

void add_recurrent(Operators& table) {
  table["LSTM"] = [](N n) { return unrolled(n, 4, lstm_step, true); };
  table["GRU"] = [](N n) {
    return unrolled(n, 3, gru_step(n.flag("linear_before_reset", false)), false);
  };
  table["RNN"] = [](N n) { return unrolled(n, 1, rnn_step, false); };
}

}  // namespace tapegrad::onnx_conformance
