// Optimizer steps: one kernel each, over the parameter, its gradient and the state. What is
// computed once for all elements is computed on the device too, from the numbers of the step: a
// graph finds them in memory. Nothing here may be contracted (-fmad=false): these are the CPU's
// bits.
#include "ops/update.h"

#include "backends/cuda/each.cuh"
#include "backends/cuda/numeric.cuh"
#include "backends/cuda/register.h"

namespace tapegrad::backends::cuda {
namespace {

/// The state, or null when it is left out.
template <typename C>
C* state(const Tensor& tensor) {
  return tensor ? tensor.data<C>() : nullptr;
}

template <typename T, typename C = Compute<T>>
struct Sgd {
  T* p;
  const T* g;
  C* b;  // null without momentum

  struct Factors {
    C lr, momentum, fresh, decay;
    bool nesterov, first;
    __device__ explicit Factors(const SgdStep& s)
        : lr(s.lr),
          momentum(s.momentum),
          fresh(1 - s.dampening),
          decay(s.weight_decay),
          nesterov(s.nesterov),
          first(s.t == 1) {}
  };
  __device__ void operator()(int64_t i, const Factors& f) const {
    const C w = widen(p[i]), d = widen(g[i]) + f.decay * w;
    C step = d;
    if (b != nullptr) {
      const C velocity = f.first ? d : f.momentum * b[i] + f.fresh * d;
      b[i] = velocity;
      step = f.nesterov ? d + f.momentum * velocity : velocity;
    }
    p[i] = narrow<T>(w - f.lr * step);
  }
};

template <typename T, typename C = Compute<T>>
struct Adam {
  T* p;
  const T* g;
  C *m, *v, *largest;  // largest: null without AMSGrad

  struct Factors {
    C beta1, rest1, beta2, rest2, eps, keep, decay, rate, scale;
    __device__ explicit Factors(const AdamStep& s)
        : beta1(s.beta1),
          rest1(1 - s.beta1),
          beta2(s.beta2),
          rest2(1 - s.beta2),
          eps(s.eps),
          keep(s.decoupled ? 1 - s.lr * s.weight_decay : 1),
          decay(s.decoupled ? 0 : s.weight_decay),
          rate(s.lr / (1 - power(s.beta1, s.t))),
          scale(1 / std::sqrt(1 - power(s.beta2, s.t))) {}
  };
  __device__ void operator()(int64_t i, const Factors& f) const {
    const C w = widen(p[i]) * f.keep, d = widen(g[i]) + f.decay * w;
    const C mean = m[i] = f.beta1 * m[i] + f.rest1 * d;
    C square = v[i] = f.beta2 * v[i] + f.rest2 * d * d;
    if (largest != nullptr) square = largest[i] = largest[i] < square ? square : largest[i];
    p[i] = narrow<T>(w - f.rate * mean / (std::sqrt(square) * f.scale + f.eps));
  }
};

template <typename T, typename C = Compute<T>>
struct Adagrad {
  T* p;
  const T* g;
  C* sum;

  struct Factors {
    C lr, eps, decay;
    __device__ explicit Factors(const AdagradStep& s)
        : lr(s.lr / (1 + double(s.t - 1) * s.lr_decay)), eps(s.eps), decay(s.weight_decay) {}
  };
  __device__ void operator()(int64_t i, const Factors& f) const {
    const C w = widen(p[i]), d = widen(g[i]) + f.decay * w;
    sum[i] += d * d;
    p[i] = narrow<T>(w - f.lr * d / (std::sqrt(sum[i]) + f.eps));
  }
};

template <typename T, typename C = Compute<T>>
struct Rmsprop {
  T* p;
  const T* g;
  C *square, *average, *b;  // average and b may be null

  struct Factors {
    C lr, alpha, rest, eps, decay, momentum;
    __device__ explicit Factors(const RmspropStep& s)
        : lr(s.lr),
          alpha(s.alpha),
          rest(1 - s.alpha),
          eps(s.eps),
          decay(s.weight_decay),
          momentum(s.momentum) {}
  };
  __device__ void operator()(int64_t i, const Factors& f) const {
    const C w = widen(p[i]), d = widen(g[i]) + f.decay * w;
    C s = square[i] = f.alpha * square[i] + f.rest * d * d;
    if (average != nullptr) {
      const C a = average[i] = f.alpha * average[i] + f.rest * d;
      s -= a * a;
    }
    C u = d / (std::sqrt(s) + f.eps);
    if (b != nullptr) u = b[i] = f.momentum * b[i] + u;
    p[i] = narrow<T>(w - f.lr * u);
  }
};

template <typename T, typename C = Compute<T>>
struct Adadelta {
  T* p;
  const T* g;
  C *square, *delta;

  struct Factors {
    C lr, rho, rest, eps, decay;
    __device__ explicit Factors(const AdadeltaStep& s)
        : lr(s.lr), rho(s.rho), rest(1 - s.rho), eps(s.eps), decay(s.weight_decay) {}
  };
  __device__ void operator()(int64_t i, const Factors& f) const {
    const C w = widen(p[i]), d = widen(g[i]) + f.decay * w;
    square[i] = f.rho * square[i] + f.rest * d * d;
    const C u = std::sqrt(delta[i] + f.eps) / std::sqrt(square[i] + f.eps) * d;
    delta[i] = f.rho * delta[i] + f.rest * u * u;
    p[i] = narrow<T>(w - f.lr * u);
  }
};

/// live: where a graph finds the numbers of the step; null: they are `given`.
template <typename Update, typename Step>
__global__ void __launch_bounds__(kThreads)
    update_kernel(int64_t count, Update update, Step given, const Step* live, const bool* found_inf,
                  const int64_t* skipped) {
  if (found_inf != nullptr && *found_inf) return;
  Step step = live != nullptr ? *live : given;
  if (skipped != nullptr) step.t -= *skipped;
  const typename Update::Factors factors(step);
  for (int64_t i = first_item(); i < count; i += item_step()) update(i, factors);
}

template <typename Update, typename Step>
void run(const Update& update, const Tensor& param, const Step& step, const StepGuard& guard) {
  const auto* live = static_cast<const Step*>(live_value(&step, sizeof(step)));
  if (param.numel() == 0 || is_preparing_run()) return;
  launch(threads_for(param.numel(), param), &update_kernel<Update, Step>, param.numel(), update,
         step, live, guard.found_inf ? guard.found_inf.data<bool>() : nullptr,
         guard.skipped ? guard.skipped.data<int64_t>() : nullptr);
}

/// Threads that find an infinity all write the same.
template <typename T>
struct Unscale {
  T* g;
  const double* scale;
  bool* found_inf;
  __device__ void operator()(int64_t i) const {
    const T unscaled = narrow<T>(widen(g[i]) * Compute<T>(1 / *scale));
    g[i] = unscaled;
    const Compute<T> value = widen(unscaled);
    if (!(value - value == Compute<T>(0))) *found_inf = true;
  }
};

struct NextScale {
  double* scale;
  int64_t* tracker;
  const bool* found_inf;
  kernels::ScaleRule rule;
  __device__ void operator()(int64_t) const {
    kernels::next_scale(*scale, *tracker, *found_inf, rule);
  }
};

}  // namespace

void register_update() {
  set<kernels::sgd_step>(kFloatTypes, []<typename T>(Type<T>, Tensor& p, const Tensor& g, Tensor& b,
                                                     const SgdStep& s, const StepGuard& guard) {
    run(Sgd<T>{p.data<T>(), g.data<T>(), state<Compute<T>>(b)}, p, s, guard);
  });
  set<kernels::adam_step>(kFloatTypes, []<typename T>(Type<T>, Tensor& p, const Tensor& g,
                                                      Tensor& m, Tensor& v, Tensor& vmax,
                                                      const AdamStep& s, const StepGuard& guard) {
    using C = Compute<T>;
    run(Adam<T>{p.data<T>(), g.data<T>(), m.data<C>(), v.data<C>(), state<C>(vmax)}, p, s, guard);
  });
  set<kernels::adagrad_step>(
      kFloatTypes, []<typename T>(Type<T>, Tensor& p, const Tensor& g, Tensor& sum,
                                  const AdagradStep& s, const StepGuard& guard) {
        run(Adagrad<T>{p.data<T>(), g.data<T>(), sum.data<Compute<T>>()}, p, s, guard);
      });
  set<kernels::rmsprop_step>(kFloatTypes, []<typename T>(Type<T>, Tensor& p, const Tensor& g,
                                                         Tensor& square, Tensor& average,
                                                         Tensor& buffer, const RmspropStep& s,
                                                         const StepGuard& guard) {
    using C = Compute<T>;
    run(Rmsprop<T>{p.data<T>(), g.data<T>(), square.data<C>(), state<C>(average), state<C>(buffer)},
        p, s, guard);
  });
  set<kernels::adadelta_step>(
      kFloatTypes, []<typename T>(Type<T>, Tensor& p, const Tensor& g, Tensor& square,
                                  Tensor& delta, const AdadeltaStep& s, const StepGuard& guard) {
        using C = Compute<T>;
        run(Adadelta<T>{p.data<T>(), g.data<T>(), square.data<C>(), delta.data<C>()}, p, s, guard);
      });
  set<kernels::unscale>(kFloatTypes, []<typename T>(Type<T>, Tensor& gradient, const Tensor& scale,
                                                    Tensor& found_inf) {
    for_each(gradient.numel(), gradient,
             Unscale<T>{gradient.data<T>(), scale.data<double>(), found_inf.data<bool>()});
  });
  set<kernels::update_scale>(
      TypeList<double>{}, [](auto, Tensor& scale, Tensor& tracker, const Tensor& found_inf,
                             const kernels::ScaleRule& rule) {
        for_each(
            1, scale,
            NextScale{scale.data<double>(), tracker.data<int64_t>(), found_inf.data<bool>(), rule});
      });
}

}  // namespace tapegrad::backends::cuda
