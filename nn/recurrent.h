// Recurrent layers. The formulas are in ops/recurrent.h.
//
//   nn::LSTM lstm({.input_size = 8, .hidden_size = 32, .batch_first = true});
//   auto [output, h, c] = lstm(x);
//   auto [y, h1, c1] = lstm(x, h, c);
//   auto [packed, h2, c2] = lstm(nn::pack_padded_sequence(x, lengths));   // nn/packed_sequence.h
#pragma once

#include <array>
#include <tuple>
#include <vector>

#include "core/base/choice.h"
#include "nn/module.h"
#include "nn/packed_sequence.h"
#include "nn/refused_nullptr.h"
#include "ops/recurrent.h"

namespace tapegrad::nn {

enum class Nonlinearity { kTanh, kRelu };
constexpr auto choice_names(Nonlinearity) {
  return std::to_array<ChoiceName<Nonlinearity>>(
      {{"tanh", Nonlinearity::kTanh}, {"relu", Nonlinearity::kRelu}});
}
struct RecurrentOptions {
  ByName by_name = {};
  int64_t input_size = 0;   // features per time step; required
  int64_t hidden_size = 0;  // features of the state; required
  int64_t num_layers = 1;
  Choice<Nonlinearity> nonlinearity = Nonlinearity::kTanh;  // for an RNN
  bool bias = true;
  bool batch_first = false;  // [batch, time, features] instead of [time, batch, features]
  double dropout = 0.0;      // between layers, in training
  bool bidirectional = false;
  std::optional<DType> dtype = {};  // of the parameters; default_dtype() by default
  int64_t proj_size = 0;            // for an LSTM: features of the projected state h; 0 for none
};

namespace detail {
/// Returns the options of a call like LSTM(8, 32, {.batch_first = true}): both sizes, and options
/// by name.
inline RecurrentOptions with_sizes(RecurrentOptions options, int64_t input_size,
                                   int64_t hidden_size) {
  options.input_size = input_size;
  options.hidden_size = hidden_size;
  return options;
}
RecurrentOptions with_sizes(RecurrentOptions options, int64_t input_size, int64_t hidden_size,
                            int64_t num_layers);
}  // namespace detail

/// The output at each time step, and the last state of each layer and direction: {output, h_n}, or
/// {output, h_n, c_n} for an LSTM.
template <size_t n>
struct RecurrentResult : std::array<Variable, n> {
  using Parts = std::array<Variable, n>;
  const Variable& operator[](size_t i) const& { return Parts::operator[](i); }
  Variable& operator[](size_t i) & { return Parts::operator[](i); }
  Variable operator[](size_t i) && { return Parts::operator[](i); }
  operator std::vector<Variable>() const { return {this->begin(), this->end()}; }
  /// Converts for functions that return a tuple: std::tuple<Variable, Variable> encode(x) { return
  /// gru(x); }
  template <std::same_as<Variable>... Vs>
  requires(sizeof...(Vs) == n) operator std::tuple<Vs...>() const {
    return std::apply([](const auto&... parts) { return std::tuple<Vs...>(parts...); }, *this);
  }
  template <std::same_as<Variable> V>
  requires(n == 2) operator std::pair<V, V>() const { return {(*this)[0], (*this)[1]}; }
  template <std::same_as<Variable> V>
  requires(n == 3) operator std::tuple<V, std::tuple<V, V>>() const {
    return {(*this)[0], std::tuple<V, V>((*this)[1], (*this)[2])};
  }
  /// Converts for `std::tie(h, c) = cell(x, {h, c})`.
  operator std::tuple<Variable&, Variable&>() requires(n == 2) { return {(*this)[0], (*this)[1]}; }
};

/// The two states of an LSTM as one argument: lstm(x, {h, c}), or a pair or tuple of them.
struct LstmState {
  Variable h, c;
  LstmState(Variable output, Variable cell);
  template <typename Pair>
  requires requires(const Pair& pair) { std::get<1>(pair); }
  LstmState(const Pair& state) : LstmState(std::get<0>(state), std::get<1>(state)) {}
};

/// The weights are named as in PyTorch: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0,
/// weight_ih_l0_reverse ...; an LSTM with proj_size also has weight_hr_l0. All are initially
/// uniform in +-1 / sqrt(hidden_size).
template <typename Self>
class Recurrent : public Model<Self> {
 public:
  std::vector<Variable> weights;  // in the order of the names

  /// Return the weights of the first layer in the first direction. Without biases, bias_ih_l0() and
  /// bias_hh_l0() throw ArgumentError.
  Variable weight_ih_l0() const { return weights[0]; }
  Variable weight_hh_l0() const { return weights[1]; }
  Variable bias_ih_l0() const { return bias(2); }
  Variable bias_hh_l0() const { return bias(3); }
  void flatten_parameters() const {}  // no effect
  void members(Members& m) override;
  std::string options() const override;

 protected:
  Recurrent(RecurrentOptions options, int64_t gates);
  int64_t state_size() const;  // features of h
  tapegrad::RecurrentOptions run_options() const;
  PackedRun packed_run() const;  // without PackedRun::run

 private:
  Variable bias(size_t i) const;

  RecurrentOptions options_;
};

class LSTM final : public Recurrent<LSTM> {
 public:
  static constexpr std::string_view kName = "LSTM";
  explicit LSTM(RefusedNullptr);
  explicit LSTM(RecurrentOptions options);
  LSTM(int64_t input_size, int64_t hidden_size, RecurrentOptions options);
  LSTM(int64_t input_size, int64_t hidden_size, int64_t num_layers, RecurrentOptions options);
  LSTM(int64_t input_size, int64_t hidden_size, int64_t num_layers = 1, bool bias = true,
       bool batch_first = false, double dropout = 0.0, bool bidirectional = false,
       Where where = Where::current());
  /// Returns {output, h_n, c_n}. Initial states default to zeros.
  RecurrentResult<3> forward(const Variable& x, const Variable& h0 = {},
                             const Variable& c0 = {}) const;
  PackedLstmResult forward(const PackedSequence& x, const Variable& h0 = {},
                           const Variable& c0 = {}) const;
  /// Overload for lstm(x, std::make_tuple(h, c)).
  RecurrentResult<3> forward(const Variable& x, const LstmState& state) const;
  PackedLstmResult forward(const PackedSequence& x, const LstmState& state) const;
  using Model::operator();
  /// Overload for lstm(x, {h, c}).
  RecurrentResult<3> operator()(const Variable& x, const LstmState& state,
                                Where where = Where::current()) const;
  PackedLstmResult operator()(const PackedSequence& x, const LstmState& state,
                              Where where = Where::current()) const;
};

class GRU final : public Recurrent<GRU> {
 public:
  static constexpr std::string_view kName = "GRU";
  explicit GRU(RefusedNullptr);
  explicit GRU(RecurrentOptions options);
  GRU(int64_t input_size, int64_t hidden_size, RecurrentOptions options);
  GRU(int64_t input_size, int64_t hidden_size, int64_t num_layers, RecurrentOptions options);
  GRU(int64_t input_size, int64_t hidden_size, int64_t num_layers = 1, bool bias = true,
      bool batch_first = false, double dropout = 0.0, bool bidirectional = false,
      Where where = Where::current());
  /// Returns {output, h_n}.
  RecurrentResult<2> forward(const Variable& x, const Variable& h0 = {}) const;
  PackedResult forward(const PackedSequence& x, const Variable& h0 = {}) const;
};

class RNN final : public Recurrent<RNN> {
 public:
  static constexpr std::string_view kName = "RNN";
  explicit RNN(RefusedNullptr);
  explicit RNN(RecurrentOptions options);
  RNN(RecurrentOptions options, Choice<Nonlinearity> nonlinearity);
  RNN(int64_t input_size, int64_t hidden_size, RecurrentOptions options);
  RNN(int64_t input_size, int64_t hidden_size, int64_t num_layers, RecurrentOptions options);
  RNN(int64_t input_size, int64_t hidden_size, RecurrentOptions options,
      Choice<Nonlinearity> nonlinearity);
  RNN(int64_t input_size, int64_t hidden_size, int64_t num_layers = 1,
      Choice<Nonlinearity> nonlinearity = Nonlinearity::kTanh, bool bias = true,
      bool batch_first = false, double dropout = 0.0, bool bidirectional = false,
      Where where = Where::current());
  /// Returns {output, h_n}.
  RecurrentResult<2> forward(const Variable& x, const Variable& h0 = {}) const;
  PackedResult forward(const PackedSequence& x, const Variable& h0 = {}) const;

 private:
  Nonlinearity nonlinearity_;
};

/// One step of a recurrent layer: base of the cells. weight_ih, weight_hh, bias_ih and bias_hh are
/// named and initialised as in PyTorch.
template <typename Self>
class RecurrentCell : public Model<Self> {
 public:
  Parameter weight_ih, weight_hh, bias_ih, bias_hh;

  void members(Members& m) override;
  std::string options() const override;

 protected:
  RecurrentCell(int64_t input_size, int64_t hidden_size, bool bias, int64_t gates, Where where);
  std::vector<Variable> weights() const;
};

class LSTMCell final : public RecurrentCell<LSTMCell> {
 public:
  static constexpr std::string_view kName = "LSTMCell";
  explicit LSTMCell(RefusedNullptr);
  LSTMCell(int64_t input_size, int64_t hidden_size, bool bias = true,
           Where where = Where::current());
  /// Maps x [batch, features] and the states [batch, hidden], by default zeros, to the new states:
  /// `auto [h1, c1] = cell(x, h, c);`.
  RecurrentResult<2> forward(const Variable& x, const Variable& h = {},
                             const Variable& c = {}) const;
  RecurrentResult<2> forward(const Variable& x, const LstmState& state) const;
  using Model::operator();
  /// Overload for cell(x, {h, c}).
  RecurrentResult<2> operator()(const Variable& x, const LstmState& state,
                                Where where = Where::current()) const;
};

class GRUCell final : public RecurrentCell<GRUCell> {
 public:
  static constexpr std::string_view kName = "GRUCell";
  explicit GRUCell(RefusedNullptr);
  GRUCell(int64_t input_size, int64_t hidden_size, bool bias = true,
          Where where = Where::current());
  Variable forward(const Variable& x, const Variable& h = {}) const;
};

class RNNCell final : public RecurrentCell<RNNCell> {
 public:
  static constexpr std::string_view kName = "RNNCell";
  RNNCell(int64_t input_size, int64_t hidden_size, bool bias = true,
          Choice<Nonlinearity> nonlinearity = Nonlinearity::kTanh, Where where = Where::current());
  Variable forward(const Variable& x, const Variable& h = {}) const;

 private:
  Nonlinearity nonlinearity_;
};

// Programs do not compile the virtual functions of these layers.
extern template class Model<LSTM, Module, false>;

}  // namespace tapegrad::nn

template <size_t n>
struct std::tuple_size<tapegrad::nn::RecurrentResult<n>> : std::integral_constant<size_t, n> {};
template <size_t i, size_t n>
struct std::tuple_element<i, tapegrad::nn::RecurrentResult<n>> {
  using type = tapegrad::Variable;
};
