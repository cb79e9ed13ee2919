// Optimizer steps: one kernel each, over the parameter, its gradient and the state.
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
  C lr, momentum, fresh, decay;
  bool nesterov, first;

  __device__ void operator()(int64_t i) const {
    const C w = widen(p[i]), d = widen(g[i]) + decay * w;
    C step = d;
    if (b != nullptr) {
      const C velocity = first ? d : momentum * b[i] + fresh * d;
      b[i] = velocity;
      step = nesterov ? d + momentum * velocity : velocity;
    }
    p[i] = narrow<T>(w - lr * step);
  }
};

template <typename T, typename C = Compute<T>>
struct Adam {
  T* p;
  const T* g;
  C *m, *v, *largest;  // largest: null without AMSGrad
  C beta1, rest1, beta2, rest2, eps, keep, decay, rate, scale;

  __device__ void operator()(int64_t i) const {
    const C w = widen(p[i]) * keep, d = widen(g[i]) + decay * w;
    const C mean = m[i] = beta1 * m[i] + rest1 * d;
    C square = v[i] = beta2 * v[i] + rest2 * d * d;
    if (largest != nullptr) square = largest[i] = largest[i] < square ? square : largest[i];
    p[i] = narrow<T>(w - rate * mean / (std::sqrt(square) * scale + eps));
  }
};

template <typename T, typename C = Compute<T>>
struct Adagrad {
  T* p;
  const T* g;
  C* sum;
  C lr, eps, decay;

  __device__ void operator()(int64_t i) const {
    const C w = widen(p[i]), d = widen(g[i]) + decay * w;
    sum[i] += d * d;
    p[i] = narrow<T>(w - lr * d / (std::sqrt(sum[i]) + eps));
  }
};

template <typename T, typename C = Compute<T>>
struct Rmsprop {
  T* p;
  const T* g;
  C *square, *average, *b;  // average and b may be null
  C lr, alpha, rest, eps, decay, momentum;

  __device__ void operator()(int64_t i) const {
    const C w = widen(p[i]), d = widen(g[i]) + decay * w;
    C s = square[i] = alpha * square[i] + rest * d * d;
    if (average != nullptr) {
      const C a = average[i] = alpha * average[i] + rest * d;
      s -= a * a;
    }
    C u = d / (std::sqrt(s) + eps);
    if (b != nullptr) u = b[i] = momentum * b[i] + u;
    p[i] = narrow<T>(w - lr * u);
  }
};

template <typename T, typename C = Compute<T>>
struct Adadelta {
  T* p;
  const T* g;
  C *square, *delta;
  C lr, rho, rest, eps, decay;

  __device__ void operator()(int64_t i) const {
    const C w = widen(p[i]), d = widen(g[i]) + decay * w;
    square[i] = rho * square[i] + rest * d * d;
    const C u = std::sqrt(delta[i] + eps) / std::sqrt(square[i] + eps) * d;
    delta[i] = rho * delta[i] + rest * u * u;
    p[i] = narrow<T>(w - lr * u);
  }
};

}  // namespace

void register_update() {
  set<kernels::sgd_step>(kFloatTypes, []<typename T>(Type<T>, Tensor& p, const Tensor& g, Tensor& b,
                                                     const SgdStep& s) {
    using C = Compute<T>;
    for_each(p.numel(), p,
             Sgd<T>{p.data<T>(), g.data<T>(), state<C>(b), C(s.lr), C(s.momentum),
                    C(1 - s.dampening), C(s.weight_decay), s.nesterov, s.first});
  });
  set<kernels::adam_step>(
      kFloatTypes, []<typename T>(Type<T>, Tensor& p, const Tensor& g, Tensor& m, Tensor& v,
                                  Tensor& vmax, const AdamStep& s) {
        using C = Compute<T>;
        for_each(p.numel(), p,
                 Adam<T>{p.data<T>(), g.data<T>(), m.data<C>(), v.data<C>(), state<C>(vmax),
                         C(s.beta1), C(1 - s.beta1), C(s.beta2), C(1 - s.beta2), C(s.eps),
                         C(s.decoupled ? 1 - s.lr * s.weight_decay : 1),
                         C(s.decoupled ? 0 : s.weight_decay), C(s.lr / s.correction1),
                         C(1 / std::sqrt(s.correction2))});
      });
  set<kernels::adagrad_step>(kFloatTypes, []<typename T>(Type<T>, Tensor& p, const Tensor& g,
                                                         Tensor& sum, const AdagradStep& s) {
    using C = Compute<T>;
    for_each(
        p.numel(), p,
        Adagrad<T>{p.data<T>(), g.data<T>(), sum.data<C>(), C(s.lr), C(s.eps), C(s.weight_decay)});
  });
  set<kernels::rmsprop_step>(
      kFloatTypes, []<typename T>(Type<T>, Tensor& p, const Tensor& g, Tensor& square,
                                  Tensor& average, Tensor& buffer, const RmspropStep& s) {
        using C = Compute<T>;
        for_each(p.numel(), p,
                 Rmsprop<T>{p.data<T>(), g.data<T>(), square.data<C>(), state<C>(average),
                            state<C>(buffer), C(s.lr), C(s.alpha), C(1 - s.alpha), C(s.eps),
                            C(s.weight_decay), C(s.momentum)});
      });
  set<kernels::adadelta_step>(
      kFloatTypes, []<typename T>(Type<T>, Tensor& p, const Tensor& g, Tensor& square,
                                  Tensor& delta, const AdadeltaStep& s) {
        using C = Compute<T>;
        for_each(p.numel(), p,
                 Adadelta<T>{p.data<T>(), g.data<T>(), square.data<C>(), delta.data<C>(), C(s.lr),
                             C(s.rho), C(1 - s.rho), C(s.eps), C(s.weight_decay)});
      });
}

}  // namespace tapegrad::backends::cuda
