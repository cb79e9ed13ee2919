// Optimizer steps: one launch updates as many parameters, with gradients and state, as its
// arguments can hold. Values common to all elements are computed on the device from the numbers of
// the step, which a graph reads from memory. Nothing here may be contracted (-fmad=false), so that
// the bits equal the CPU's.
#include "ops/update.h"

#include "backends/cuda/device/batch.cuh"
#include "backends/cuda/device/each.cuh"
#include "backends/cuda/device/numeric.cuh"
#include "backends/cuda/register.h"

namespace tapegrad::backends::cuda {
namespace {

/// The state tensor's data, or null if the tensor is empty.
template <typename C>
C* state(const ParamUpdate& u, size_t number) {
  return u.state[number] ? u.state[number].data<C>() : nullptr;
}

template <typename T, typename C = Compute<T>>
struct Sgd {
  T* p;
  const T* g;
  C* b;  // null without momentum

  static Sgd of(const ParamUpdate& u) {
    return {u.param.data<T>(), u.grad.data<T>(), state<C>(u, 0)};
  }

  struct Factors {
    C lr, momentum, fresh, decay;
    bool nesterov, first;
    __device__ Factors(const SgdStep& s, int64_t t)
        : lr(s.lr),
          momentum(s.momentum),
          fresh(1 - s.dampening),
          decay(s.weight_decay),
          nesterov(s.nesterov),
          first(t == 1) {}
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

  static Adam of(const ParamUpdate& u) {
    return {u.param.data<T>(), u.grad.data<T>(), state<C>(u, 0), state<C>(u, 1), state<C>(u, 2)};
  }

  struct Factors {
    C beta1, rest1, beta2, rest2, eps, keep, decay, rate, scale;
    __device__ Factors(const AdamStep& s, int64_t t)
        : beta1(s.beta1),
          rest1(1 - s.beta1),
          beta2(s.beta2),
          rest2(1 - s.beta2),
          eps(s.eps),
          keep(s.decoupled ? 1 - s.lr * s.weight_decay : 1),
          decay(s.decoupled ? 0 : s.weight_decay),
          rate(s.lr / (1 - power(s.beta1, t))),
          scale(1 / std::sqrt(1 - power(s.beta2, t))) {}
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

  static Adagrad of(const ParamUpdate& u) {
    return {u.param.data<T>(), u.grad.data<T>(), state<C>(u, 0)};
  }

  struct Factors {
    C lr, eps, decay;
    __device__ Factors(const AdagradStep& s, int64_t t)
        : lr(s.lr / (1 + double(t - 1) * s.lr_decay)), eps(s.eps), decay(s.weight_decay) {}
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

  static Rmsprop of(const ParamUpdate& u) {
    return {u.param.data<T>(), u.grad.data<T>(), state<C>(u, 0), state<C>(u, 1), state<C>(u, 2)};
  }

  struct Factors {
    C lr, alpha, rest, eps, decay, momentum;
    __device__ Factors(const RmspropStep& s, int64_t)
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

  static Adadelta of(const ParamUpdate& u) {
    return {u.param.data<T>(), u.grad.data<T>(), state<C>(u, 0), state<C>(u, 1)};
  }

  struct Factors {
    C lr, rho, rest, eps, decay;
    __device__ Factors(const AdadeltaStep& s, int64_t)
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

/// Numbers that change from step to step.
template <typename Step>
struct Numbers {
  Step step;
  int64_t t[kMostOfABatch];
};

/// live: the address at which a graph finds the numbers; null: the numbers are `given`.
template <typename Update, typename Step>
__global__ void __launch_bounds__(kThreads)
    update_kernel(Batch<Update> batch, Numbers<Step> given, const Numbers<Step>* live,
                  const bool* found_inf, const int64_t* skipped) {
  if (found_inf != nullptr && *found_inf) return;
  const Step step = live != nullptr ? live->step : given.step;
  const int64_t left_out = skipped != nullptr ? *skipped : 0;
  int k = 0;
  for (int64_t number = blockIdx.x; number < batch.pieces(); number += gridDim.x) {
    const Piece piece = batch.piece(number, k);
    const Update update = batch.items[k];
    const int64_t t = live != nullptr ? live->t[k] : given.t[k];
    const typename Update::Factors factors(step, t - left_out);
    for (int64_t i = piece.first + threadIdx.x; i < piece.end; i += blockDim.x) update(i, factors);
  }
}

template <typename Update, typename Step>
void run(const ParamUpdates& params, const Step& step, const StepGuard& guard) {
  if (is_recording_graph())
    for (const ParamUpdate& u : params.list) {
      note_operand(u.param), note_operand(u.grad);
      for (const Tensor& state : u.state) note_operand(state);
    }
  for_each_batch<ParamUpdate>(params.list, [&](std::span<const ParamUpdate> some) {
    Batch<Update> batch{};
    Numbers<Step> numbers{step, {}};
    for (const ParamUpdate& u : some) {
      numbers.t[batch.count] = u.t;
      batch.add(Update::of(u), u.param.numel());
    }
    const auto* live = static_cast<const Numbers<Step>*>(live_value(&numbers, sizeof(numbers)));
    if (batch.pieces() == 0 || is_preparing_run()) return;
    launch(grid_for(batch.pieces(), 1, some.front().param), &update_kernel<Update, Step>, batch,
           numbers, live, guard.found_inf ? guard.found_inf.data<bool>() : nullptr,
           guard.skipped ? guard.skipped.data<int64_t>() : nullptr);
  });
}

/// Threads that find a non-finite gradient all write the same value.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    unscale_kernel(Batch<T*> batch, const double* scale, bool* found_inf) {
  const Compute<T> factor(1 / *scale);
  int k = 0;
  for (int64_t number = blockIdx.x; number < batch.pieces(); number += gridDim.x) {
    const Piece piece = batch.piece(number, k);
    T* g = batch.items[k];
    for (int64_t i = piece.first + threadIdx.x; i < piece.end; i += blockDim.x) {
      const T unscaled = narrow<T>(widen(g[i]) * factor);
      g[i] = unscaled;
      const Compute<T> value = widen(unscaled);
      if (!(value - value == Compute<T>(0))) *found_inf = true;
    }
  }
}

template <typename T>
void unscale(const Gradients& gradients, const Tensor& scale, const Tensor& found_inf) {
  for_each_batch<Tensor>(gradients.list, [&](std::span<const Tensor> some) {
    Batch<T*> batch{};
    for (const Tensor& g : some) {
      if (is_recording_graph()) note_operand(g);
      batch.add(g.data<T>(), g.numel());
    }
    if (batch.pieces() > 0)
      launch(grid_for(batch.pieces(), 1, some.front()), &unscale_kernel<T>, batch,
             scale.data<double>(), found_inf.data<bool>());
  });
}

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
  set<kernels::sgd_step>(
      kFloatTypes, []<typename T>(Type<T>, const ParamUpdates& params, const SgdStep& step,
                                  const StepGuard& guard) { run<Sgd<T>>(params, step, guard); });
  set<kernels::adam_step>(
      kFloatTypes, []<typename T>(Type<T>, const ParamUpdates& params, const AdamStep& step,
                                  const StepGuard& guard) { run<Adam<T>>(params, step, guard); });
  set<kernels::adagrad_step>(
      kFloatTypes,
      []<typename T>(Type<T>, const ParamUpdates& params, const AdagradStep& step,
                     const StepGuard& guard) { run<Adagrad<T>>(params, step, guard); });
  set<kernels::rmsprop_step>(
      kFloatTypes,
      []<typename T>(Type<T>, const ParamUpdates& params, const RmspropStep& step,
                     const StepGuard& guard) { run<Rmsprop<T>>(params, step, guard); });
  set<kernels::adadelta_step>(
      kFloatTypes,
      []<typename T>(Type<T>, const ParamUpdates& params, const AdadeltaStep& step,
                     const StepGuard& guard) { run<Adadelta<T>>(params, step, guard); });
  set<kernels::unscale>(
      kFloatTypes, []<typename T>(Type<T>, const Gradients& gradients, const Tensor& scale,
                                  Tensor& found_inf) { unscale<T>(gradients, scale, found_inf); });
  set<kernels::update_scale>(
      TypeList<double>{}, [](auto, Tensor& scale, Tensor& tracker, const Tensor& found_inf,
                             const kernels::ScaleRule& rule) {
        for_each(
            1, scale,
            NextScale{scale.data<double>(), tracker.data<int64_t>(), found_inf.data<bool>(), rule});
      });
}

}  // namespace tapegrad::backends::cuda
