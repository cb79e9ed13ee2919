// Recurrent layers. The formulas are in ops/recurrent.h.
//
//   nn::LSTM lstm({.input_size = 8, .hidden_size = 32, .batch_first = true});
//   std::vector<Variable> y = lstm(x);    // output, h_n and c_n
#pragma once

#include <vector>

#include "nn/module.h"
#include "ops/recurrent.h"

namespace tapegrad::nn {

struct RecurrentOptions {
  int64_t input_size = 0;   // features per time step; required
  int64_t hidden_size = 0;  // features of the state; required
  int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;  // [batch, time, features] instead of [time, batch, features]
  double dropout = 0.0;      // between layers, in training
  bool bidirectional = false;
};

/// The weights are named as in PyTorch: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0,
/// weight_ih_l0_reverse ... All are initially uniform in +-1 / sqrt(hidden_size).
template <typename Self>
class Recurrent : public Model<Self> {
 public:
  std::vector<Variable> weights;  // in the order above

  void members(Members& m) override;
  std::string options() const override;

 protected:
  Recurrent(RecurrentOptions options, int64_t gates);
  tapegrad::RecurrentOptions run_options() const;

 private:
  RecurrentOptions options_;
};

class LSTM final : public Recurrent<LSTM> {
 public:
  static constexpr std::string_view kName = "LSTM";
  explicit LSTM(RecurrentOptions options);
  /// Returns {output, h_n, c_n}. Initial states that are left out are zeros.
  std::vector<Variable> forward(const Variable& x, const Variable& h0 = {},
                                const Variable& c0 = {}) const {
    return lstm(x, h0, c0, weights, run_options(), ModuleCall::line());
  }
};

class GRU final : public Recurrent<GRU> {
 public:
  static constexpr std::string_view kName = "GRU";
  explicit GRU(RecurrentOptions options);
  /// Returns {output, h_n}.
  std::vector<Variable> forward(const Variable& x, const Variable& h0 = {}) const {
    return gru(x, h0, weights, run_options(), ModuleCall::line());
  }
};

enum class Nonlinearity { kTanh, kRelu };
class RNN final : public Recurrent<RNN> {
 public:
  static constexpr std::string_view kName = "RNN";
  explicit RNN(RecurrentOptions options, Nonlinearity nonlinearity = Nonlinearity::kTanh);
  /// Returns {output, h_n}.
  std::vector<Variable> forward(const Variable& x, const Variable& h0 = {}) const {
    return nonlinearity_ == Nonlinearity::kTanh
               ? rnn_tanh(x, h0, weights, run_options(), ModuleCall::line())
               : rnn_relu(x, h0, weights, run_options(), ModuleCall::line());
  }

 private:
  Nonlinearity nonlinearity_;
};

}  // namespace tapegrad::nn
