// One step of an LSTM or GRU for one element of the state, and its gradient.
#pragma once

#include "backends/functions.h"

namespace tapegrad::formulas {

/// The gates i, f, g and o, or their gradients.
template <typename V>
struct LstmGates {
  V i, f, g, o;
};
template <typename V>
struct LstmState {
  V c, h;
};

/// Applies sigmoid to i, f and o, and tanh to g.
template <typename V>
TG_HD LstmGates<V> activated(const LstmGates<V>& sums) {
  using F = Functions<V>;
  return {F::sigmoid(sums.i), F::sigmoid(sums.f), F::tanh(sums.g), F::sigmoid(sums.o)};
}

template <typename V>
TG_HD LstmState<V> lstm_step(const LstmGates<V>& gates, V c_before) {
  const V c = gates.f * c_before + gates.i * gates.g;
  return {c, gates.o * Functions<V>::tanh(c)};
}

/// Returns the gradients of the gates before their activations, given those of h and c. Replaces dc
/// by the gradient of c_before.
template <typename V>
TG_HD LstmGates<V> lstm_step_backward(const LstmGates<V>& gates, V c_before, V c, V dh, V& dc) {
  const V one(1), t = Functions<V>::tanh(c);
  dc = dc + dh * gates.o * (one - t * t);
  const V di = dc * gates.g, df = dc * c_before, dg = dc * gates.i, d_o = dh * t;
  dc = dc * gates.f;
  return {di * gates.i * (one - gates.i), df * gates.f * (one - gates.f),
          dg * (one - gates.g * gates.g), d_o * gates.o * (one - gates.o)};
}

/// Contributions of the input, or of the state with its bias, to each gate.
template <typename V>
struct GruShares {
  V r, z, n;
};
/// The gates and the state's contribution to n, which r scales; or their gradients.
template <typename V>
struct GruGates {
  V r, z, n, share;
};

/// Applies sigmoid to r and z, and tanh to n.
template <typename V>
TG_HD GruGates<V> activated(const GruShares<V>& x, const GruShares<V>& h) {
  using F = Functions<V>;
  const V r = F::sigmoid(x.r + h.r);
  return {r, F::sigmoid(x.z + h.z), F::tanh(x.n + r * h.n), h.n};
}

template <typename V>
TG_HD V gru_step(const GruGates<V>& gates, V h_before) {
  return gates.n + gates.z * (h_before - gates.n);
}

/// Returns the gradients of the gates before their activations, and of `share`, given that of h.
/// Replaces dh by the direct gradient of h_before, without the part that flows through the gates.
template <typename V>
TG_HD GruGates<V> gru_step_backward(const GruGates<V>& gates, V h_before, V& dh) {
  const V one(1), dz = dh * (h_before - gates.n);
  const V dn = dh * (one - gates.z) * (one - gates.n * gates.n);
  dh = dh * gates.z;
  return {dn * gates.share * gates.r * (one - gates.r), dz * gates.z * (one - gates.z), dn,
          dn * gates.r};
}

}  // namespace tapegrad::formulas
