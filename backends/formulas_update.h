// Optimizer steps for one element of a parameter; ops/update.h has the equations.
//
// A formula computes its factors once per parameter, from the options of the step and the number t
// of the parameter's step, and rounds them to C, the type of the optimizer state. Its operator()
// takes the parameter w, the gradient g and the optimizer state, overwrites the state and returns
// the new w. State that an option leaves out is passed as LeftOut.
#pragma once

#include <array>
#include <cmath>
#include <type_traits>
#include <utility>

#include "core/base/host_device.h"
#include "ops/update.h"

namespace tapegrad::formulas {

struct LeftOut {};
template <typename State>
inline constexpr bool kLeftOut = std::is_same_v<std::remove_cvref_t<State>, LeftOut>;

template <typename C>
struct Sgd {
  static constexpr std::array kOptional{true};

  C lr, momentum, fresh, decay;
  bool nesterov, first;

  TG_HD Sgd(const SgdStep& s, int64_t t)
      : lr(s.lr),
        momentum(s.momentum),
        fresh(1 - s.dampening),
        decay(s.weight_decay),
        nesterov(s.nesterov),
        first(t == 1) {}

  template <typename B>
  TG_HD C operator()(C w, C g, B&& b) const {
    const C d = g + decay * w;
    if constexpr (kLeftOut<B>) {
      return w - lr * d;
    } else {
      const C velocity = momentum * b + fresh * d;
      b = first ? d : velocity;
      const C ahead = first ? (C(1) + momentum) * d : d + momentum * velocity;
      return w - lr * (nesterov ? ahead : b);
    }
  }
};

template <typename C>
struct Adam {
  static constexpr std::array kOptional{false, false, true};

  C beta1, rest1, beta2, rest2, eps, keep, decay, rate, scale;

  TG_HD Adam(const AdamStep& s, int64_t t)
      : beta1(s.beta1),
        rest1(1 - s.beta1),
        beta2(s.beta2),
        rest2(1 - s.beta2),
        eps(s.eps),
        keep(s.decoupled ? 1 - s.lr * s.weight_decay : 1),
        decay(s.decoupled ? 0 : s.weight_decay),
        rate(s.lr / (1 - power(s.beta1, t))),
        scale(1 / std::sqrt(1 - power(s.beta2, t))) {}

  template <typename Largest>
  TG_HD C operator()(C w, C g, C& m, C& v, Largest&& largest) const {
    w = w * keep;
    const C d = g + decay * w;
    m = beta1 * m + rest1 * d;
    v = beta2 * v + rest2 * d * d;
    C square = v;
    if constexpr (!kLeftOut<Largest>) square = largest = largest < v ? v : largest;
    return w - rate * m / (std::sqrt(square) * scale + eps);
  }
};

template <typename C>
struct Adagrad {
  static constexpr std::array kOptional{false};

  C lr, eps, decay;

  TG_HD Adagrad(const AdagradStep& s, int64_t t)
      : lr(s.lr / (1 + double(t - 1) * s.lr_decay)), eps(s.eps), decay(s.weight_decay) {}

  TG_HD C operator()(C w, C g, C& sum) const {
    const C d = g + decay * w;
    sum += d * d;
    return w - lr * d / (std::sqrt(sum) + eps);
  }
};

template <typename C>
struct Rmsprop {
  static constexpr std::array kOptional{false, true, true};

  C lr, alpha, rest, eps, decay, momentum;

  TG_HD Rmsprop(const RmspropStep& s, int64_t)
      : lr(s.lr),
        alpha(s.alpha),
        rest(1 - s.alpha),
        eps(s.eps),
        decay(s.weight_decay),
        momentum(s.momentum) {}

  template <typename Average, typename B>
  TG_HD C operator()(C w, C g, C& square, Average&& average, B&& b) const {
    const C d = g + decay * w;
    square = alpha * square + rest * d * d;
    C variance = square;
    if constexpr (!kLeftOut<Average>) {
      average = alpha * average + rest * d;
      variance -= average * average;
    }
    C u = d / (std::sqrt(variance) + eps);
    if constexpr (!kLeftOut<B>) u = b = momentum * b + u;
    return w - lr * u;
  }
};

template <typename C>
struct Adadelta {
  static constexpr std::array kOptional{false, false};

  C lr, rho, rest, eps, decay;

  TG_HD Adadelta(const AdadeltaStep& s, int64_t)
      : lr(s.lr), rho(s.rho), rest(1 - s.rho), eps(s.eps), decay(s.weight_decay) {}

  TG_HD C operator()(C w, C g, C& square, C& delta) const {
    const C d = g + decay * w;
    square = rho * square + rest * d * d;
    const C u = std::sqrt(delta + eps) / std::sqrt(square + eps) * d;
    delta = rho * delta + rest * u * u;
    return w - lr * u;
  }
};

/// The optimizer state of one parameter; kHas says which tensors are there.
template <typename C, bool... kHas>
struct StepState {
  C* data[sizeof...(kHas)];

  static StepState of(const ParamUpdate& u) { return of(u, Indices()); }

  /// The new value of element i, which is w with the gradient g.
  template <typename Formula>
  TG_HD C step(const Formula& f, int64_t i, C w, C g) const {
    return step(f, i, w, g, Indices());
  }

 private:
  using Indices = std::make_index_sequence<sizeof...(kHas)>;

  template <size_t... K>
  static StepState of(const ParamUpdate& u, std::index_sequence<K...>) {
    return {{(kHas ? u.state[K].template data<C>() : nullptr)...}};
  }
  template <typename Formula, size_t... K>
  TG_HD C step(const Formula& f, int64_t i, C w, C g, std::index_sequence<K...>) const {
    return f(w, g, element<kHas>(data[K], i)...);
  }
  template <bool kThere>
  TG_HD static decltype(auto) element(C* from, int64_t i) {
    if constexpr (kThere)
      return from[i];
    else
      return LeftOut();
  }
};

/// Calls run(StepState<C, ...>::of(u)) for the state tensors that the update has.
template <template <typename> class Formula, typename C, bool... kHas, typename Run>
void with_state(const ParamUpdate& u, const Run& run) {
  constexpr size_t k = sizeof...(kHas);
  if constexpr (k == Formula<C>::kOptional.size())
    run(StepState<C, kHas...>::of(u));
  else if constexpr (!Formula<C>::kOptional[k])
    with_state<Formula, C, kHas..., true>(u, run);
  else if (u.state[k])
    with_state<Formula, C, kHas..., true>(u, run);
  else
    with_state<Formula, C, kHas..., false>(u, run);
}

}  // namespace tapegrad::formulas
