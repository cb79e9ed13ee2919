#include "nn/recurrent.h"

#include <cmath>

#include "core/base/internal/classic_text.h"
#include "core/tape/internal/call_line.h"
#include "nn/weighted.h"
#include "ops/create.h"
#include "ops/view.h"

namespace tapegrad::nn {
namespace {

constexpr int64_t kMostLayers = 65536, kMostHidden = int64_t(1) << 40;

}  // namespace

template <typename Self>
Recurrent<Self>::Recurrent(RecurrentOptions options, int64_t gates) : options_(options) {
  const ErrorLine line(options.by_name.where);
  require_option(Self::kName, ".input_size", options.input_size);
  require_option(Self::kName, ".hidden_size", options.hidden_size);
  require_option(Self::kName, ".num_layers", options.num_layers);
  require_share(Self::kName, ".dropout", options.dropout);
  if (options.num_layers > kMostLayers || options.hidden_size > kMostHidden)
    fail<ArgumentError>(Self::kName, ": num_layers is ", options.num_layers, " and hidden_size ",
                        options.hidden_size, "; at most ", kMostLayers, " and ", kMostHidden);
  if (!std::same_as<Self, RNN> && options.nonlinearity != Nonlinearity::kTanh)
    fail<ArgumentError>(Self::kName, ": the option .nonlinearity is one of RNN");
  if (!std::same_as<Self, LSTM> && options.proj_size != 0)
    fail<ArgumentError>(Self::kName, ": the option .proj_size is one of LSTM");
  if (options.proj_size < 0 || (options.proj_size > 0 && options.proj_size >= options.hidden_size))
    fail<ArgumentError>(Self::kName, ": .proj_size is ", options.proj_size,
                        "; 0, or at least 1 and less than hidden_size ", options.hidden_size);
  const int64_t hidden = options.hidden_size, directions = options.bidirectional ? 2 : 1;
  const double bound = 1 / std::sqrt(double(hidden));
  const auto add = [&](const Shape& shape) {
    Variable weight = empty(shape, {.dtype = options.dtype.value_or(default_dtype())});
    weights.push_back(init::uniform_(weight, -bound, bound).requires_grad_());
  };
  for (int64_t layer = 0; layer < options.num_layers; ++layer)
    for (int64_t direction = 0; direction < directions; ++direction) {
      add({gates * hidden, layer == 0 ? options.input_size : state_size() * directions});
      add({gates * hidden, state_size()});
      for (int i = 0; options.bias && i < 2; ++i) add({gates * hidden});
      if (options.proj_size > 0) add({options.proj_size, hidden});
    }
}

template <typename Self>
void Recurrent<Self>::members(Members& m) {
  std::vector<std::string> kinds{"weight_ih", "weight_hh"};
  if (options_.bias) kinds.insert(kinds.end(), {"bias_ih", "bias_hh"});
  if (options_.proj_size > 0) kinds.push_back("weight_hr");
  const size_t per_cell = kinds.size(), directions = options_.bidirectional ? 2 : 1;
  for (size_t i = 0; i < weights.size(); ++i) {
    const size_t cell = i / per_cell;
    m(kinds[i % per_cell] + "_l" + std::to_string(cell / directions) +
          (cell % directions == 1 ? "_reverse" : ""),
      weights[i]);
  }
}

template <typename Self>
Variable Recurrent<Self>::bias(size_t i) const {
  if (!options_.bias) fail<ArgumentError>(Self::kName, ": the layer has no bias");
  return weights[i];
}

template <typename Self>
std::string Recurrent<Self>::options() const {
  ClassicText text;
  text << "input_size=" << options_.input_size << ", hidden_size=" << options_.hidden_size;
  if (options_.num_layers != 1) text << ", num_layers=" << options_.num_layers;
  if (!options_.bias) text << ", bias=false";
  if (options_.batch_first) text << ", batch_first=true";
  if (options_.dropout != 0) text << ", dropout=" << options_.dropout;
  if (options_.bidirectional) text << ", bidirectional=true";
  if (options_.proj_size > 0) text << ", proj_size=" << options_.proj_size;
  return text.str();
}

template <typename Self>
tapegrad::RecurrentOptions Recurrent<Self>::run_options() const {
  return {.num_layers = options_.num_layers,
          .bidirectional = options_.bidirectional,
          .batch_first = options_.batch_first,
          .dropout = options_.dropout,
          .training = this->is_training()};
}

template <typename Self>
PackedRun Recurrent<Self>::packed_run() const {
  return {.run = {},
          .weights = weights,
          .num_layers = options_.num_layers,
          .hidden_size = options_.hidden_size,
          .state_size = state_size(),
          .bidirectional = options_.bidirectional,
          .dropout = this->is_training() ? options_.dropout : 0.0};
}

template <typename Self>
int64_t Recurrent<Self>::state_size() const {
  return options_.proj_size > 0 ? options_.proj_size : options_.hidden_size;
}

template class Recurrent<LSTM>;
template class Recurrent<GRU>;
template class Recurrent<RNN>;

namespace {

template <size_t n>
RecurrentResult<n> first(std::vector<Variable> list) {
  RecurrentResult<n> result;
  std::move(list.begin(), list.begin() + n, result.begin());
  return result;
}

RecurrentOptions all_options(int64_t input_size, int64_t hidden_size, int64_t num_layers, bool bias,
                             bool batch_first, double dropout, bool bidirectional, Where where) {
  return {{where}, input_size,  hidden_size, num_layers,   Nonlinearity::kTanh,
          bias,    batch_first, dropout,     bidirectional};
}

}  // namespace

LSTM::LSTM(RecurrentOptions options) : Recurrent(options, 4) {}
LSTM::LSTM(int64_t input_size, int64_t hidden_size, int64_t num_layers, bool bias, bool batch_first,
           double dropout, bool bidirectional, Where where)
    : LSTM(all_options(input_size, hidden_size, num_layers, bias, batch_first, dropout,
                       bidirectional, where)) {}
RecurrentResult<3> LSTM::forward(const Variable& x, const Variable& h0, const Variable& c0) const {
  return first<3>(lstm(x, h0, c0, weights, run_options(), ModuleCall::line()));
}

GRU::GRU(RecurrentOptions options) : Recurrent(options, 3) {}
GRU::GRU(int64_t input_size, int64_t hidden_size, int64_t num_layers, bool bias, bool batch_first,
         double dropout, bool bidirectional, Where where)
    : GRU(all_options(input_size, hidden_size, num_layers, bias, batch_first, dropout,
                      bidirectional, where)) {}
RecurrentResult<2> GRU::forward(const Variable& x, const Variable& h0) const {
  return first<2>(gru(x, h0, weights, run_options(), ModuleCall::line()));
}

RNN::RNN(RecurrentOptions options) : Recurrent(options, 1), nonlinearity_(options.nonlinearity) {}
RNN::RNN(RecurrentOptions options, Choice<Nonlinearity> nonlinearity)
    : Recurrent(options, 1), nonlinearity_(nonlinearity) {}
RNN::RNN(int64_t input_size, int64_t hidden_size, int64_t num_layers,
         Choice<Nonlinearity> nonlinearity, bool bias, bool batch_first, double dropout,
         bool bidirectional, Where where)
    : RNN(all_options(input_size, hidden_size, num_layers, bias, batch_first, dropout,
                      bidirectional, where),
          nonlinearity) {}
RecurrentResult<2> RNN::forward(const Variable& x, const Variable& h0) const {
  const auto run = nonlinearity_ == Nonlinearity::kTanh ? rnn_tanh : rnn_relu;
  return first<2>(run(x, h0, weights, run_options(), ModuleCall::line()));
}

PackedLstmResult LSTM::forward(const PackedSequence& x, const Variable& h0,
                               const Variable& c0) const {
  PackedRun layer = packed_run();
  layer.run = [where = ModuleCall::line()](const Variable& x, const Variable& h, const Variable& c,
                                           std::span<const Variable> weights) {
    return lstm(x, h, c, weights, {}, where);
  };
  return run_packed(layer, x, h0, c0);
}

namespace {

template <typename Op>
PackedResult run_without_cells(PackedRun layer, Op op, const PackedSequence& x,
                               const Variable& h0) {
  layer.run = [op, where = ModuleCall::line()](const Variable& x, const Variable& h,
                                               const Variable&, std::span<const Variable> weights) {
    return op(x, h, weights, {}, where);
  };
  PackedLstmResult result = run_packed(layer, x, h0, {});
  return {std::move(result.output), std::move(result.h)};
}

Variable with_time(const Variable& x) { return x.defined() ? unsqueeze(x, 0) : x; }

}  // namespace

PackedResult GRU::forward(const PackedSequence& x, const Variable& h0) const {
  return run_without_cells(packed_run(), gru, x, h0);
}
PackedResult RNN::forward(const PackedSequence& x, const Variable& h0) const {
  return run_without_cells(packed_run(), nonlinearity_ == Nonlinearity::kTanh ? rnn_tanh : rnn_relu,
                           x, h0);
}

template <typename Self>
RecurrentCell<Self>::RecurrentCell(int64_t input_size, int64_t hidden_size, bool bias,
                                   int64_t gates, Where where) {
  const ErrorLine line(where);
  require_option(Self::kName, "input_size", input_size);
  require_option(Self::kName, "hidden_size", hidden_size);
  if (hidden_size > kMostHidden)
    fail<ArgumentError>(Self::kName, ": hidden_size is ", hidden_size, "; at most ", kMostHidden);
  const double bound = 1 / std::sqrt(double(hidden_size));
  const auto make = [&](const Shape& shape) {
    Variable weight = empty(shape);
    return init::uniform_(weight, -bound, bound).requires_grad_();
  };
  weight_ih = make({gates * hidden_size, input_size});
  weight_hh = make({gates * hidden_size, hidden_size});
  if (!bias) return;
  bias_ih = make({gates * hidden_size});
  bias_hh = make({gates * hidden_size});
}

template <typename Self>
void RecurrentCell<Self>::members(Members& m) {
  m("weight_ih", weight_ih)("weight_hh", weight_hh)("bias_ih", bias_ih)("bias_hh", bias_hh);
}

template <typename Self>
std::string RecurrentCell<Self>::options() const {
  ClassicText text;
  text << "input_size=" << weight_ih.size(1) << ", hidden_size=" << weight_hh.size(1);
  if (!bias_ih.defined()) text << ", bias=false";
  return text.str();
}

template <typename Self>
std::vector<Variable> RecurrentCell<Self>::weights() const {
  std::vector<Variable> list{weight_ih, weight_hh};
  if (bias_ih.defined()) list.insert(list.end(), {bias_ih, bias_hh});
  return list;
}

template class RecurrentCell<LSTMCell>;
template class RecurrentCell<GRUCell>;
template class RecurrentCell<RNNCell>;

LSTMCell::LSTMCell(int64_t input_size, int64_t hidden_size, bool bias, Where where)
    : RecurrentCell(input_size, hidden_size, bias, 4, where) {}
RecurrentResult<2> LSTMCell::forward(const Variable& x, const Variable& h,
                                     const Variable& c) const {
  const auto y =
      lstm(unsqueeze(x, 0), with_time(h), with_time(c), weights(), {}, ModuleCall::line());
  return {{select(y[1], 0, 0), select(y[2], 0, 0)}};
}

GRUCell::GRUCell(int64_t input_size, int64_t hidden_size, bool bias, Where where)
    : RecurrentCell(input_size, hidden_size, bias, 3, where) {}
Variable GRUCell::forward(const Variable& x, const Variable& h) const {
  return select(gru(unsqueeze(x, 0), with_time(h), weights(), {}, ModuleCall::line())[1], 0, 0);
}

RNNCell::RNNCell(int64_t input_size, int64_t hidden_size, bool bias,
                 Choice<Nonlinearity> nonlinearity, Where where)
    : RecurrentCell(input_size, hidden_size, bias, 1, where), nonlinearity_(nonlinearity) {}
Variable RNNCell::forward(const Variable& x, const Variable& h) const {
  const auto run = nonlinearity_ == Nonlinearity::kTanh ? rnn_tanh : rnn_relu;
  return select(run(unsqueeze(x, 0), with_time(h), weights(), {}, ModuleCall::line())[1], 0, 0);
}

RecurrentResult<3> LSTM::forward(const Variable& x, const LstmState& state) const {
  return forward(x, state.h, state.c);
}
PackedLstmResult LSTM::forward(const PackedSequence& x, const LstmState& state) const {
  return forward(x, state.h, state.c);
}
RecurrentResult<2> LSTMCell::forward(const Variable& x, const LstmState& state) const {
  return forward(x, state.h, state.c);
}

RecurrentResult<3> LSTM::operator()(const Variable& x, const LstmState& state, Where where) const {
  return Model::operator()(x, state.h, state.c, where);
}

PackedLstmResult LSTM::operator()(const PackedSequence& x, const LstmState& state,
                                  Where where) const {
  return Model::operator()(x, state.h, state.c, where);
}

RecurrentResult<2> LSTMCell::operator()(const Variable& x, const LstmState& state,
                                        Where where) const {
  return Model::operator()(x, state.h, state.c, where);
}

}  // namespace tapegrad::nn

namespace tapegrad::nn::detail {
RecurrentOptions with_sizes(RecurrentOptions options, int64_t input_size, int64_t hidden_size,
                            int64_t num_layers) {
  options.num_layers = num_layers;
  return with_sizes(options, input_size, hidden_size);
}
}  // namespace tapegrad::nn::detail

namespace tapegrad::nn {
LstmState::LstmState(Variable output, Variable cell) : h(std::move(output)), c(std::move(cell)) {}
LSTM::LSTM(int64_t input_size, int64_t hidden_size, RecurrentOptions options)
    : LSTM(detail::with_sizes(options, input_size, hidden_size)) {}
LSTM::LSTM(int64_t input_size, int64_t hidden_size, int64_t num_layers, RecurrentOptions options)
    : LSTM(detail::with_sizes(options, input_size, hidden_size, num_layers)) {}
GRU::GRU(int64_t input_size, int64_t hidden_size, RecurrentOptions options)
    : GRU(detail::with_sizes(options, input_size, hidden_size)) {}
GRU::GRU(int64_t input_size, int64_t hidden_size, int64_t num_layers, RecurrentOptions options)
    : GRU(detail::with_sizes(options, input_size, hidden_size, num_layers)) {}
RNN::RNN(int64_t input_size, int64_t hidden_size, RecurrentOptions options)
    : RNN(detail::with_sizes(options, input_size, hidden_size)) {}
RNN::RNN(int64_t input_size, int64_t hidden_size, int64_t num_layers, RecurrentOptions options)
    : RNN(detail::with_sizes(options, input_size, hidden_size, num_layers)) {}
RNN::RNN(int64_t input_size, int64_t hidden_size, RecurrentOptions options,
         Choice<Nonlinearity> nonlinearity)
    : RNN(detail::with_sizes(options, input_size, hidden_size), nonlinearity) {}
template class Model<LSTM, Module, false>;

}  // namespace tapegrad::nn
