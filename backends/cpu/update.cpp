// Optimizer steps: one loop each, over the parameter, its gradient and its state.
#include "ops/update.h"

#include <algorithm>
#include <cmath>

#include "backends/cpu/register.h"

namespace tapegrad::backends::cpu {
namespace {

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"  // with sanitizers the loop is not vectorised
#endif

/// Calls f(i) for every element. Each block uses its own copy of f, whose pointers and factors then
/// stay in registers; with a reference the compiler uses gather instructions.
template <typename F>
void for_each_element(int64_t count, const F& shared) {
  constexpr int64_t kBlock = 16384;
  const int64_t blocks = (count + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static) if (blocks > 2)
  for (int64_t block = 0; block < blocks; ++block) {
    const F f = shared;
    const int64_t first = block * kBlock, last = std::min(count, first + kBlock);
#pragma omp simd
    for (int64_t i = first; i < last; ++i) f(i);
  }
}

/// The state tensor's data, or null if the tensor is empty.
template <typename C>
C* state(const ParamUpdate& u, size_t number) {
  return u.state[number] ? u.state[number].data<C>() : nullptr;
}

/// Calls update(parameter, t) for all parameters, unless the step is skipped; t excludes skipped
/// steps.
template <typename Update>
void for_each_param(const ParamUpdates& params, const StepGuard& guard, const Update& update) {
  if (guard.found_inf && *guard.found_inf.data<bool>()) return;
  const int64_t skipped = guard.skipped ? *guard.skipped.data<int64_t>() : 0;
  for (const ParamUpdate& u : params.list) update(u, u.t - skipped);
}

template <typename T>
void sgd(const ParamUpdate& u, int64_t t, const SgdStep& s) {
  using C = Compute<T>;
  const int64_t count = u.param.numel();
  T* p = u.param.data<T>();
  const T* g = u.grad.data<T>();
  C* b = state<C>(u, 0);
  const C lr(s.lr), momentum(s.momentum), fresh(1 - s.dampening), decay(s.weight_decay);
  if (b == nullptr) {
    for_each_element(count, [=](int64_t i) {
      const C w(p[i]);
      p[i] = T(w - lr * (C(g[i]) + decay * w));
    });
  } else if (t == 1) {
    for_each_element(count, [=](int64_t i) { b[i] = C(g[i]) + decay * C(p[i]); });
    const C times = s.nesterov ? C(1) + momentum : C(1);
    for_each_element(count, [=](int64_t i) { p[i] = T(C(p[i]) - lr * (times * b[i])); });
  } else {
    const C ahead = s.nesterov ? momentum : C(0);
    const C now = s.nesterov ? C(1) : C(0), past = s.nesterov ? ahead : C(1);
    for_each_element(count, [=](int64_t i) {
      const C w(p[i]), d = C(g[i]) + decay * w;
      const C velocity = momentum * b[i] + fresh * d;
      b[i] = velocity;
      p[i] = T(w - lr * (now * d + past * velocity));
    });
  }
}

template <typename T>
void adam(const ParamUpdate& u, int64_t t, const AdamStep& s) {
  using C = Compute<T>;
  const int64_t count = u.param.numel();
  T* p = u.param.data<T>();
  const T* g = u.grad.data<T>();
  C *m = state<C>(u, 0), *v = state<C>(u, 1), *top = state<C>(u, 2);
  const C beta1(s.beta1), rest1(1 - s.beta1), beta2(s.beta2), rest2(1 - s.beta2), eps(s.eps);
  const C keep(s.decoupled ? 1 - s.lr * s.weight_decay : 1);
  const C decay(s.decoupled ? 0 : s.weight_decay);
  const C rate(s.lr / (1 - power(s.beta1, t)));
  const C scale(1 / std::sqrt(1 - power(s.beta2, t)));
  const auto step = [=](int64_t i, auto bound) {
    const C w = C(p[i]) * keep, d = C(g[i]) + decay * w;
    const C mean = m[i] = beta1 * m[i] + rest1 * d;
    const C square = v[i] = beta2 * v[i] + rest2 * d * d;
    p[i] = T(w - rate * mean / (std::sqrt(bound(i, square)) * scale + eps));
  };
  if (top == nullptr)
    for_each_element(count, [=](int64_t i) { step(i, [](int64_t, C v) { return v; }); });
  else
    for_each_element(count, [=](int64_t i) {
      step(i, [=](int64_t i, C v) { return top[i] = std::max(top[i], v); });
    });
}

template <typename T>
void adagrad(const ParamUpdate& u, int64_t t, const AdagradStep& s) {
  using C = Compute<T>;
  T* p = u.param.data<T>();
  const T* g = u.grad.data<T>();
  C* total = state<C>(u, 0);
  const C lr(s.lr / (1 + double(t - 1) * s.lr_decay)), eps(s.eps), decay(s.weight_decay);
  for_each_element(u.param.numel(), [=](int64_t i) {
    const C w(p[i]), d = C(g[i]) + decay * w;
    total[i] += d * d;
    p[i] = T(w - lr * d / (std::sqrt(total[i]) + eps));
  });
}

template <typename T>
void rmsprop(const ParamUpdate& u, const RmspropStep& s) {
  using C = Compute<T>;
  const int64_t count = u.param.numel();
  T* p = u.param.data<T>();
  const T* g = u.grad.data<T>();
  C *sq = state<C>(u, 0), *avg = state<C>(u, 1), *b = state<C>(u, 2);
  const C lr(s.lr), alpha(s.alpha), rest(1 - s.alpha), eps(s.eps), decay(s.weight_decay);
  const C momentum(s.momentum);
  const auto run = [=](auto centre, auto carry) {
    for_each_element(count, [=](int64_t i) {
      const C w(p[i]), d = C(g[i]) + decay * w;
      sq[i] = alpha * sq[i] + rest * d * d;
      p[i] = T(w - lr * carry(i, d / (std::sqrt(centre(i, d, sq[i])) + eps)));
    });
  };
  const auto raw = [](int64_t, C, C square) { return square; };
  const auto centred = [=](int64_t i, C d, C square) {
    avg[i] = alpha * avg[i] + rest * d;
    return square - avg[i] * avg[i];
  };
  const auto direct = [](int64_t, C step) { return step; };
  const auto moving = [=](int64_t i, C step) { return b[i] = momentum * b[i] + step; };
  if (avg != nullptr)
    b != nullptr ? run(centred, moving) : run(centred, direct);
  else
    b != nullptr ? run(raw, moving) : run(raw, direct);
}

template <typename T>
void adadelta(const ParamUpdate& u, const AdadeltaStep& s) {
  using C = Compute<T>;
  T* p = u.param.data<T>();
  const T* g = u.grad.data<T>();
  C *sq = state<C>(u, 0), *acc = state<C>(u, 1);
  const C lr(s.lr), rho(s.rho), rest(1 - s.rho), eps(s.eps), decay(s.weight_decay);
  for_each_element(u.param.numel(), [=](int64_t i) {
    const C w(p[i]), d = C(g[i]) + decay * w;
    sq[i] = rho * sq[i] + rest * d * d;
    const C step = std::sqrt(acc[i] + eps) / std::sqrt(sq[i] + eps) * d;
    acc[i] = rho * acc[i] + rest * step * step;
    p[i] = T(w - lr * step);
  });
}

/// Multiplies by 1 / scale in float64 and rounds once.
template <typename T>
void unscale(const Tensor& gradient, const Tensor& scale, Tensor& found_inf) {
  using C = Compute<T>;
  constexpr int64_t kBlock = 16384;
  T* g = gradient.data<T>();
  const C inverse(1 / *scale.data<double>());
  const int64_t count = gradient.numel(), blocks = (count + kBlock - 1) / kBlock;
  bool found = false;
#pragma omp parallel for schedule(static) reduction(|| : found) if (blocks > 2)
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t last = std::min(count, (block + 1) * kBlock);
    C bad = 0;  // x - x is 0 or NaN
#pragma omp simd reduction(+ : bad)
    for (int64_t i = block * kBlock; i < last; ++i) {
      g[i] = T(C(g[i]) * inverse);
      bad += C(g[i]) - C(g[i]);
    }
    found = found || !(bad == C(0));
  }
  if (found) *found_inf.data<bool>() = true;
}

}  // namespace

void register_update() {
  const auto cpu = DeviceType::kCpu;
  set_kernel(kernels::sgd_step, cpu, kFloatTypes,
             []<typename T>(Type<T>, const ParamUpdates& params, const SgdStep& s,
                            const StepGuard& guard) {
               for_each_param(params, guard,
                              [&](const ParamUpdate& u, int64_t t) { sgd<T>(u, t, s); });
             });
  set_kernel(kernels::adam_step, cpu, kFloatTypes,
             []<typename T>(Type<T>, const ParamUpdates& params, const AdamStep& s,
                            const StepGuard& guard) {
               for_each_param(params, guard,
                              [&](const ParamUpdate& u, int64_t t) { adam<T>(u, t, s); });
             });
  set_kernel(kernels::adagrad_step, cpu, kFloatTypes,
             []<typename T>(Type<T>, const ParamUpdates& params, const AdagradStep& s,
                            const StepGuard& guard) {
               for_each_param(params, guard,
                              [&](const ParamUpdate& u, int64_t t) { adagrad<T>(u, t, s); });
             });
  set_kernel(kernels::rmsprop_step, cpu, kFloatTypes,
             []<typename T>(Type<T>, const ParamUpdates& params, const RmspropStep& s,
                            const StepGuard& guard) {
               for_each_param(params, guard,
                              [&](const ParamUpdate& u, int64_t) { rmsprop<T>(u, s); });
             });
  set_kernel(kernels::adadelta_step, cpu, kFloatTypes,
             []<typename T>(Type<T>, const ParamUpdates& params, const AdadeltaStep& s,
                            const StepGuard& guard) {
               for_each_param(params, guard,
                              [&](const ParamUpdate& u, int64_t) { adadelta<T>(u, s); });
             });
  set_kernel(
      kernels::unscale, cpu, kFloatTypes,
      []<typename T>(Type<T>, const Gradients& gradients, const Tensor& scale, Tensor& found_inf) {
        for (const Tensor& g : gradients.list) unscale<T>(g, scale, found_inf);
      });
  set_kernel(kernels::update_scale, cpu, TypeList<double>{},
             [](auto, Tensor& scale, Tensor& tracker, const Tensor& found_inf,
                const kernels::ScaleRule& rule) {
               kernels::next_scale(*scale.data<double>(), *tracker.data<int64_t>(),
                                   *found_inf.data<bool>(), rule);
             });
}

}  // namespace tapegrad::backends::cpu
