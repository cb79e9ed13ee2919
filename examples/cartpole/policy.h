// A policy for the cart-pole task and its gradient (Williams 1992, REINFORCE).
#pragma once

#include <vector>

#include <tapegrad/tapegrad.h>

#include "cartpole/cart_pole.h"

namespace cartpole {

using tapegrad::Variable;
namespace nn = tapegrad::nn;

/// Log probabilities of pushing to the left and to the right, for states [batch, 4].
struct Policy : nn::Model<Policy> {
  nn::Linear hidden, out;

  explicit Policy(int64_t width)
      : hidden({.in_features = 4, .out_features = width}),
        out({.in_features = width, .out_features = 2}) {}
  void members(nn::Members& m) override { m("hidden", hidden)("out", out); }
  Variable forward(const Variable& states) const {
    return tapegrad::log_softmax(out(relu(hidden(states))), -1);
  }
};

inline Variable as_input(const CartPole::State& state) {
  return tapegrad::tensor(std::vector<float>(state.begin(), state.end()), {1, 4})
      .to(tapegrad::default_device());
}

/// Log probabilities of the actions of an episode, one element each, with their history.
using Episode = std::vector<Variable>;

/// Draws an action for the state and returns whether it is a push to the right.
inline bool act(const Policy& policy, const CartPole::State& state, Episode& episode) {
  const Variable shares = policy(as_input(state));
  const auto action = int64_t(tapegrad::multinomial(exp(shares.detach()), 1).item());
  episode.push_back(select(shares, 1, action));
  return action == 1;
}

/// Returns the loss whose gradient is that of the expected return: each step is weighted by the
/// discounted number of steps after it, which is centred and scaled within the episode.
inline Variable loss_of(const Episode& episode, double discount) {
  std::vector<float> returns(episode.size());
  double sum = 0;
  for (size_t i = episode.size(); i-- > 0;) returns[i] = float(sum = 1 + discount * sum);
  Variable weights = tapegrad::tensor(returns).to(tapegrad::default_device());
  if (episode.size() > 1) weights = (weights - mean(weights)) / (tapegrad::std(weights) + 1e-6);
  return -tapegrad::sum(tapegrad::cat(episode) * weights);
}

}  // namespace cartpole
