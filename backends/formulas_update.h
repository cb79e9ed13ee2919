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

#include "backends/functions.h"
#include "core/base/host_device.h"
#include "ops/update.h"

namespace tapegrad::formulas {

/// Returns x, or 0 instead of a subnormal number. A mean of gradients that have become 0 would stay
/// subnormal, with which some processors take 15 times as long for a step.
template <typename C>
TG_HD C normal_or_zero(C x) {
  return Functions<C>::normal_or_zero(x);
}

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
      const C velocity = normal_or_zero(momentum * b + fresh * d);
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
        eps(s.eps_of_sum ? s.eps / std::sqrt(1 - power(s.beta2, t)) : s.eps),
        keep(s.decoupled ? 1 - s.lr * s.weight_decay : 1),
        decay(s.decoupled ? 0 : s.weight_decay),
        rate(s.lr / (1 - power(s.beta1, t))),
        scale(1 / std::sqrt(1 - power(s.beta2, t))) {}

  template <typename Largest>
  TG_HD C operator()(C w, C g, C& m, C& v, Largest&& largest) const {
    w = w * keep;
    const C d = g + decay * w;
    m = normal_or_zero(beta1 * m + rest1 * d);
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
      average = normal_or_zero(alpha * average + rest * d);
      variance -= average * average;
    }
    C u = d / (std::sqrt(variance) + eps);
    if constexpr (!kLeftOut<B>) u = b = normal_or_zero(momentum * b + u);
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

/// The part that NAdam, RAdam and Adamax share.
template <typename C>
struct AdamMean {
  C rest1, keep, decay;

  TG_HD AdamMean(double beta1, double lr, double weight_decay, bool decoupled)
      : rest1(1 - beta1),
        keep(decoupled ? 1 - lr * weight_decay : 1),
        decay(decoupled ? 0 : weight_decay) {}

  /// Applies weight decay to w or g, and adds the gradient, which is returned, to the mean m.
  TG_HD C operator()(C& w, C g, C& m) const {
    w = w * keep;
    const C d = g + decay * w;
    m = normal_or_zero(m + rest1 * (d - m));
    return d;
  }
};

template <typename C>
struct Nadam {
  static constexpr std::array kOptional{false, false};

  AdamMean<C> mean;
  C beta2, rest2, eps, correction, of_gradient, of_mean;

  TG_HD Nadam(const NadamStep& s, int64_t t)
      : mean(s.beta1, s.lr, s.weight_decay, s.decoupled),
        beta2(s.beta2),
        rest2(1 - s.beta2),
        eps(s.eps),
        correction(1 - power(s.beta2, t)) {
    // A product below 2^-60 does not change 1 - product.
    double product = 1, decayed = 1;
    for (int64_t i = 0; i < t && product > 0x1p-60; ++i) {
      decayed *= s.decay;
      product *= s.beta1 * (1 - 0.5 * decayed);
    }
    const double last = power(s.decay, t), now = s.beta1 * (1 - 0.5 * last);
    const double next = s.beta1 * (1 - 0.5 * last * s.decay);
    of_gradient = C(s.lr * (1 - now) / (1 - product));
    of_mean = C(s.lr * next / (1 - product * next));
  }

  TG_HD C operator()(C w, C g, C& m, C& v) const {
    const C d = mean(w, g, m);
    v = beta2 * v + rest2 * (d * d);
    const C size = std::sqrt(v / correction) + eps;
    w = w - of_gradient * (d / size);
    return w - of_mean * (m / size);
  }
};

template <typename C>
struct Radam {
  static constexpr std::array kOptional{false, false};

  AdamMean<C> mean;
  C beta2, rest2, eps, correction1, root, rate;
  bool adapts;

  TG_HD Radam(const RadamStep& s, int64_t t)
      : mean(s.beta1, s.lr, s.weight_decay, s.decoupled),
        beta2(s.beta2),
        rest2(1 - s.beta2),
        eps(s.eps),
        correction1(1 - power(s.beta1, t)) {
    const double kept = power(s.beta2, t), correction2 = 1 - kept;
    // The number of gradients that the mean of squares is worth, for large t and at step t.
    const double longest = 2 / (1 - s.beta2) - 1;
    const double length = longest - 2 * double(t) * kept / correction2;
    adapts = length > 5;
    root = C(std::sqrt(correction2));
    rate = C(!adapts ? s.lr
                     : s.lr * std::sqrt((length - 4) * (length - 2) * longest /
                                        ((longest - 4) * (longest - 2) * length)));
  }

  TG_HD C operator()(C w, C g, C& m, C& v) const {
    const C d = mean(w, g, m);
    v = beta2 * v + rest2 * (d * d);
    const C step = m / correction1, adaptive = step * (root / (std::sqrt(v) + eps));
    return w - rate * (adapts ? adaptive : step);
  }
};

template <typename C>
struct Adamax {
  static constexpr std::array kOptional{false, false};

  AdamMean<C> mean;
  C beta2, eps, rate;

  TG_HD Adamax(const AdamaxStep& s, int64_t t)
      : mean(s.beta1, s.lr, s.weight_decay, /*decoupled=*/false),
        beta2(s.beta2),
        eps(s.eps),
        rate(s.lr / (1 - power(s.beta1, t))) {}

  TG_HD C operator()(C w, C g, C& m, C& largest) const {
    const C d = mean(w, g, m);
    const C before = beta2 * largest, size = std::fabs(d) + eps;
    largest = before > size || !(before == before) ? before : size;  // NaN wins
    return w - rate * (m / largest);
  }
};

template <typename C>
struct Rprop {
  static constexpr std::array kOptional{false, false};

  C shrink, grow, least, most;

  TG_HD Rprop(const RpropStep& s, int64_t)
      : shrink(s.shrink), grow(s.grow), least(s.least), most(s.most) {}

  TG_HD C operator()(C w, C g, C& last, C& size) const {
    const C agreement = g * last;
    const C wanted = size * (agreement > C(0) ? grow : agreement < C(0) ? shrink : C(1));
    const C at_least = wanted < least ? least : wanted;
    size = at_least > most ? most : at_least;
    last = agreement < C(0) ? C(0) : g;
    return w - (last > C(0) ? C(1) : last < C(0) ? C(-1) : last) * size;  // NaN stays
  }
};

template <typename C>
struct Asgd {
  static constexpr std::array kOptional{false};

  C decay, keep, rate, share;

  TG_HD Asgd(const AsgdStep& s, int64_t t) : decay(s.weight_decay) {
    const double before = double(t - 1), past = before - s.t0;
    const double now = s.lr / std::pow(1 + s.lambd * s.lr * before, s.alpha);
    keep = C(1 - s.lambd * now);
    rate = C(now);
    share = C(1 / (past > 1 ? past : 1));
  }

  TG_HD C operator()(C w, C g, C& average) const {
    const C d = g + decay * w;
    w = w * keep - rate * d;
    average = share == C(1) ? w : average + share * (w - average);
    return w;
  }
};

/// The optimizer state of one parameter; kHas says which tensors are there.
template <typename C, bool... kHas>
struct StepState {
  C* data[sizeof...(kHas)];

  static StepState of(const ParamUpdate& u) { return of(u, Indices()); }

  /// Returns the new value of element i, which is w with the gradient g.
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

/// The kernel of an optimizer step, and the formula that it applies.
template <auto& kKernel, template <typename> class Formula>
struct Optimizer {};

/// Calls visit(Optimizer<kernel, Formula>()) for each optimizer.
template <typename Visit>
void for_each_optimizer(const Visit& visit) {
  visit(Optimizer<kernels::sgd_step, Sgd>());
  visit(Optimizer<kernels::adam_step, Adam>());
  visit(Optimizer<kernels::adagrad_step, Adagrad>());
  visit(Optimizer<kernels::rmsprop_step, Rmsprop>());
  visit(Optimizer<kernels::adadelta_step, Adadelta>());
  visit(Optimizer<kernels::nadam_step, Nadam>());
  visit(Optimizer<kernels::radam_step, Radam>());
  visit(Optimizer<kernels::adamax_step, Adamax>());
  visit(Optimizer<kernels::rprop_step, Rprop>());
  visit(Optimizer<kernels::asgd_step, Asgd>());
}

}  // namespace tapegrad::formulas
