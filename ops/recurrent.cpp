#include "ops/recurrent.h"

#include <string>

#include "core/tape/internal/autocast_operand.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/dropout.h"
#include "ops/internal/extent.h"
#include "ops/internal/limits.h"
#include "ops/internal/recurrent_sequence.h"
#include "ops/linear.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {

using namespace detail;

namespace {

/// The weights of one layer in one direction.
struct Weights {
  Variable w_ih, w_hh, b_ih, b_hh, w_hr;
};

/// The state carried from step to step; c is used by lstm only.
struct State {
  Variable h, c;
};

/// The checked arguments: sequences as [time, batch, features], states and weights.
struct Network {
  std::string_view op;
  RecurrentOptions options;
  bool single;  // a single sequence without batch dimension
  Variable x;
  std::vector<Weights> weights;   // by layer, then by direction
  int64_t hidden = 0, state = 0;  // features of c and of h; they differ with a projection

  Network(std::string_view op, const Variable& input, std::span<const Variable> list, int gates,
          bool may_project, const RecurrentOptions& o)
      : op(op), options(o), single(input.rank() == 2) {
    require_float(op, input.value());
    if (input.rank() != 3 && !single)
      fail<ShapeError>(
          op, ": sequences [time, batch, features] or [time, features] wanted: ", input.shape());
    require_count(op, "num_layers", o.num_layers);
    if (!(o.dropout >= 0 && o.dropout <= 1))
      fail<ArgumentError>(op, ": dropout is a probability, not ", o.dropout);
    x = single ? unsqueeze(input, 1) : o.batch_first ? transpose(input, 0, 1) : input;
    if (x.size(0) == 0) fail<ShapeError>(op, ": a sequence without steps: ", input.shape());
    take_weights(list, gates, may_project);
  }

  int64_t directions() const { return options.bidirectional ? 2 : 1; }
  int64_t cells() const { return options.num_layers * directions(); }

  /// Returns the initial state of every cell: [batch, features].
  std::vector<Variable> first_states(const Variable& given, std::string_view name,
                                     int64_t features) const {
    const Shape each{x.size(1), features};
    if (!given.defined()) {
      const Variable zero = zeros(each, {.dtype = x.dtype(), .device = x.device()});
      return std::vector<Variable>(size_t(cells()), zero);
    }
    check_same_device(op, x.value(), given.value());
    check_same_dtype(op, x.value(), given.value());
    const Shape wanted = single ? Shape{cells(), features} : Shape{cells(), each[0], features};
    if (given.shape() != wanted)
      fail<ShapeError>(op, ": ", name, " is ", given.shape(), ", not ", wanted);
    std::vector<Variable> states;
    for (int64_t i = 0; i < cells(); ++i)
      states.push_back(single ? narrow(given, 0, i, 1) : select(given, 0, i));
    return states;
  }

  Variable output(const Variable& y) const {
    return single ? squeeze(y, 1) : options.batch_first ? transpose(y, 0, 1) : y;
  }
  Variable last_states(const std::vector<Variable>& states) const {
    return single ? cat(states, 0) : stack(states, 0);
  }

 private:
  void take_weights(std::span<const Variable> list, int gates, bool may_project) {
    const size_t count = size_t(cells()), each = list.size() % count == 0 ? list.size() / count : 0;
    if (each < 2 || each > (may_project ? 5u : 4u) || (!may_project && each == 3))
      fail<ArgumentError>(op, ": ", list.size(), " weights, not ", 2 * count, ", or with biases ",
                          4 * count);
    const bool has_bias = each >= 4, projects = each % 2 == 1;
    for (size_t i = 0; i < list.size(); i += each)
      weights.push_back({list[i], list[i + 1], has_bias ? list[i + 2] : Variable(),
                         has_bias ? list[i + 3] : Variable(),
                         projects ? list[i + each - 1] : Variable()});
    const auto columns = [](const Variable& w) {
      return w.defined() && w.rank() == 2 ? w.size(1) : -1;
    };
    state = columns(weights[0].w_hh);
    hidden = projects ? columns(weights[0].w_hr) : state;
    for (size_t i = 0; i < weights.size(); ++i) {
      const int64_t features = i < size_t(directions()) ? x.size(2) : state * directions();
      if (const Variable& w = weights[i].w_ih;
          i == 0 && w.defined() && w.rank() == 2 && w.size(1) != features)
        fail<ShapeError>(op, ": the input ", x.shape(), " has ", features, " features; the weight ",
                         w.shape(), " takes ", w.size(1));
      check(weights[i].w_ih, {gates * hidden, features}, "w_ih", i);
      check(weights[i].w_hh, {gates * hidden, state}, "w_hh", i);
      check(weights[i].b_ih, {gates * hidden}, "b_ih", i);
      check(weights[i].b_hh, {gates * hidden}, "b_hh", i);
      if (projects) check(weights[i].w_hr, {state, hidden}, "w_hr", i);
    }
  }

  void check(const Variable& weight, const Shape& wanted, std::string_view name, size_t cell) {
    if (!weight.defined()) {
      if (name.starts_with("w"))
        fail<ArgumentError>(op, ": ", name, " of cell ", cell, " is missing");
      return;
    }
    if (hidden < 1 || state < 1 || weight.shape() != wanted)
      fail<ShapeError>(op, ": ", name, " of cell ", cell, " is ", weight.shape(), ", not ", wanted);
    check_same_device(op, x.value(), weight.value());
    check_same_dtype(op, x.value(), weight.value());
  }
};

/// Returns the states that step(from_input[t]) returns for every t, stacked in the order of time.
template <typename Step>
Variable step_by_step(const Variable& from_input, bool backwards, Step step) {
  const int64_t steps = from_input.size(0);
  std::vector<Variable> states(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = backwards ? steps - 1 - i : i;
    states[size_t(t)] = step(select(from_input, 0, t));
  }
  return stack(states, 0);
}

// A layer maps a sequence, in one direction, to its states and leaves the final state in `state`.

struct LstmLayer {
  static constexpr int kGates = 4;

  Variable operator()(const Variable& x, const Weights& w, bool backwards, State& state) const {
    const Variable bias = !w.b_ih.defined() ? w.b_hh : !w.b_hh.defined() ? w.b_ih : w.b_ih + w.b_hh;
    if (w.w_hr.defined()) return projected(linear(x, w.w_ih, bias), w, backwards, state);
    const auto made = lstm_sequence(linear(x, w.w_ih, bias), state.h, state.c, w.w_hh, backwards,
                                    Where::current());
    state = {select(made[0], 0, backwards ? 0 : x.size(0) - 1), made[1]};
    return made[0];
  }

 private:
  /// Runs the steps one by one with ops: the kernels of a whole sequence have no projection.
  static Variable projected(const Variable& from_input, const Weights& w, bool backwards,
                            State& state) {
    return step_by_step(from_input, backwards, [&](const Variable& at_step) -> const Variable& {
      const std::vector<Variable> gates = chunk(at_step + linear(state.h, w.w_hh), 4, -1);
      state.c = sigmoid(gates[1]) * state.c + sigmoid(gates[0]) * tanh(gates[2]);
      return state.h = linear(sigmoid(gates[3]) * tanh(state.c), w.w_hr);
    });
  }
};

struct GruLayer {
  static constexpr int kGates = 3;

  Variable operator()(const Variable& x, const Weights& w, bool backwards, State& state) const {
    const Variable h = gru_sequence(linear(x, w.w_ih, w.b_ih), state.h, w.w_hh, w.b_hh, backwards,
                                    Where::current());
    state.h = select(h, 0, backwards ? 0 : x.size(0) - 1);
    return h;
  }
};

template <auto activation>
struct PlainLayer {
  static constexpr int kGates = 1;

  Variable operator()(const Variable& x, const Weights& w, bool backwards, State& state) const {
    const Variable from_input = linear(x, w.w_ih, w.b_ih);  // for all steps at once
    return step_by_step(from_input, backwards, [&](const Variable& at_step) -> const Variable& {
      return state.h = activation(at_step + linear(state.h, w.w_hh, w.b_hh), Where::current());
    });
  }
};

template <typename Layer>
std::vector<Variable> run(std::string_view op, const Layer& run_layer, const Variable& input,
                          const Variable& h0, const Variable& c0, std::span<const Variable> weights,
                          const RecurrentOptions& options) {
  constexpr bool kHasC = std::same_as<Layer, LstmLayer>;
  const Network net(op, input, weights, Layer::kGates, kHasC, options);
  std::vector<Variable> h = net.first_states(h0, "h0", net.state), c;
  if (kHasC) c = net.first_states(c0, "c0", net.hidden);
  Variable x = net.x;
  for (int64_t layer = 0; layer < options.num_layers; ++layer) {
    if (layer > 0) x = dropout(x, options.dropout, options.training);
    std::vector<Variable> outputs;
    for (int64_t direction = 0; direction < net.directions(); ++direction) {
      const size_t i = size_t(layer * net.directions() + direction);
      State state{h[i], kHasC ? c[i] : Variable()};
      outputs.push_back(run_layer(x, net.weights[i], direction == 1, state));
      h[i] = state.h;
      if (kHasC) c[i] = state.c;
    }
    x = outputs.size() == 1 ? outputs[0] : cat(outputs, 2);
  }
  std::vector<Variable> results{net.output(x), net.last_states(h)};
  if (kHasC) results.push_back(net.last_states(c));
  return results;
}

}  // namespace

std::vector<Variable> lstm(const Variable& x, const Variable& h0, const Variable& c0,
                           std::span<const Variable> weights, RecurrentOptions options,
                           Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision([](const auto&... a) { return lstm(a...); }, where, x, h0, c0, weights,
                            options);
  const CallLine line(where);
  return run("lstm", LstmLayer(), x, h0, c0, weights, options);
}

std::vector<Variable> gru(const Variable& x, const Variable& h0, std::span<const Variable> weights,
                          RecurrentOptions options, Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision([](const auto&... a) { return gru(a...); }, where, x, h0, weights,
                            options);
  const CallLine line(where);
  return run("gru", GruLayer(), x, h0, {}, weights, options);
}

std::vector<Variable> rnn_tanh(const Variable& x, const Variable& h0,
                               std::span<const Variable> weights, RecurrentOptions options,
                               Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision([](const auto&... a) { return rnn_tanh(a...); }, where, x, h0, weights,
                            options);
  const CallLine line(where);
  return run("rnn_tanh", PlainLayer<tanh>(), x, h0, {}, weights, options);
}

std::vector<Variable> rnn_relu(const Variable& x, const Variable& h0,
                               std::span<const Variable> weights, RecurrentOptions options,
                               Where where) {
  if (is_autocast_enabled()) [[unlikely]]
    return in_low_precision([](const auto&... a) { return rnn_relu(a...); }, where, x, h0, weights,
                            options);
  const CallLine line(where);
  return run("rnn_relu", PlainLayer<relu>(), x, h0, {}, weights, options);
}

static RecurrentOptions recurrent_options(const Arguments& a) {
  return {.num_layers = a.integer("num_layers"),
          .bidirectional = a.flag("bidirectional"),
          .batch_first = a.flag("batch_first"),
          .dropout = a.real("dropout"),
          .training = a.flag("train")};
}

/// Example arguments with one feature and a state of one number.
template <int64_t gates>
static Arguments example(DType dtype) {
  const Variable x(Tensor::full({1, 1, 1}, 1, dtype)), w(Tensor::full({gates, 1}, 1, dtype));
  return {.inputs = {x}, .list = {w, w}};
}

void catalog_recurrent(Catalog& catalog) {
  constexpr std::string_view kOptions =
      "num_layers: int = 1, bidirectional: bool = false, batch_first: bool = false, "
      "dropout: float = 0.0, train: bool = false)";
  const auto with = [=](std::string_view head) {
    return std::string(head) + std::string(kOptions);
  };
  using A = const Arguments&;
  catalog.add(with("lstm(input, h0?, c0?, params*, "),
              "c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c')",
              [](A a) { return lstm(a[0], a[1], a[2], a.list, recurrent_options(a)); },
              {.example = example<4>});
  catalog.add(with("gru(input, h0?, params*, "),
              "n = tanh(x_n + sigmoid(r) h_n), h' = (1 - sigmoid(z)) n + sigmoid(z) h",
              [](A a) { return gru(a[0], a[1], a.list, recurrent_options(a)); },
              {.example = example<3>});
  catalog.add(with("rnn_tanh(input, h0?, params*, "), "h' = tanh(w_ih x + b_ih + w_hh h + b_hh)",
              [](A a) { return rnn_tanh(a[0], a[1], a.list, recurrent_options(a)); });
  catalog.add(with("rnn_relu(input, h0?, params*, "), "h' = relu(w_ih x + b_ih + w_hh h + b_hh)",
              [](A a) { return rnn_relu(a[0], a[1], a.list, recurrent_options(a)); });
}

}  // namespace tapegrad
