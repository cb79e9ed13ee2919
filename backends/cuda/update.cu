// Optimizer steps: one launch updates as many parameters, with gradients and state, as its
// arguments can hold. Values common to all elements are computed on the device from the numbers of
// the step, which a graph reads from memory. Nothing here may be contracted (-fmad=false), so that
// the bits equal the CPU's.
#include "ops/update.h"

#include "backends/cuda/device/batch.cuh"
#include "backends/cuda/device/each.cuh"
#include "backends/cuda/device/numeric.cuh"
#include "backends/cuda/device/team.cuh"
#include "backends/cuda/register.h"
#include "backends/formulas_update.h"
#include "ops/internal/kernels/many_gradients.h"

namespace tapegrad::backends::cuda {
namespace {

/// Addresses of a parameter, of its gradient and of its state.
template <typename T, typename State>
struct Update {
  T* p;
  const T* g;
  State state;

  template <typename Formula>
  __device__ void operator()(int64_t i, const Formula& f) const {
    p[i] = narrow<T>(state.step(f, i, widen(p[i]), widen(g[i])));
  }
};

/// Numbers that change from step to step.
template <typename Step>
struct Numbers {
  Step step;
  int64_t t[kMostOfABatch];
};

/// Least number of blocks on a multiprocessor; 0: none. Without a number, ptxas spills registers of
/// RAdam and of some updates of doubles to have room for more blocks.
template <typename Formula, typename Update>
[[maybe_unused]] inline constexpr int kUpdateBlocks =
    std::is_same_v<decltype(Update::p), double*> || std::is_same_v<Formula, formulas::Radam<float>>
        ? 1
        : 0;

/// live: the address at which a graph finds the numbers; null: the numbers are `given`.
template <typename Formula, typename Update, typename Step>
__global__ void __launch_bounds__(kThreads, kUpdateBlocks<Formula, Update>)
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
    const Formula formula(step, t - left_out);
    for (int64_t i = piece.first + threadIdx.x; i < piece.end; i += blockDim.x) update(i, formula);
  }
}

template <typename T, typename Formula, typename State, typename Step>
void update_batch(std::span<const ParamUpdate> some, const Step& step, const StepGuard& guard) {
  Batch<Update<T, State>> batch{};
  Numbers<Step> numbers{step, {}};
  for (const ParamUpdate& u : some) {
    numbers.t[batch.count] = u.t;
    batch.add({u.param.data<T>(), u.grad.data<T>(), State::of(u)}, u.param.numel());
  }
  const auto* live = static_cast<const Numbers<Step>*>(live_value(&numbers, sizeof(numbers)));
  if (batch.pieces() == 0 || is_preparing_run()) return;
  launch(grid_for(batch.pieces(), 1, some.front().param),
         &update_kernel<Formula, Update<T, State>, Step>, batch, numbers, live,
         guard.found_inf ? guard.found_inf.data<bool>() : nullptr,
         guard.skipped ? guard.skipped.data<int64_t>() : nullptr);
}

template <typename T, template <typename> class Formula, typename Step>
void update(const ParamUpdates& params, const Step& step, const StepGuard& guard) {
  using C = Compute<T>;
  if (is_recording_graph())
    for (const ParamUpdate& u : params.list) {
      note_operand(u.param), note_operand(u.grad);
      for (const Tensor& state : u.state) note_operand(state);
    }
  formulas::with_state<Formula, C>(params.list.front(), [&]<typename State>(State) {
    for_each_batch<ParamUpdate>(params.list, [&](std::span<const ParamUpdate> some) {
      update_batch<T, Formula<C>, State>(some, step, guard);
    });
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

/// Calls run() with as many gradients at a time as a launch takes.
template <typename T, typename Run>
void for_each_list(const Gradients& gradients, const Run& run) {
  for_each_batch<Tensor>(gradients.list, [&](std::span<const Tensor> some) {
    Batch<T*> batch{};
    for (const Tensor& g : some) {
      if (is_recording_graph()) note_operand(g);
      batch.add(g.data<T>(), g.numel());
    }
    if (batch.pieces() > 0) run(batch);
  });
}

template <typename T>
void unscale(const Gradients& gradients, const Tensor& scale, const Tensor& found_inf) {
  for_each_list<T>(gradients, [&](const Batch<T*>& batch) {
    launch(grid_for(batch.pieces(), 1, scale), &unscale_kernel<T>, batch, scale.data<double>(),
           found_inf.data<bool>());
  });
}

/// The factor of a gradient, in device memory.
template <typename C>
struct Scale {
  const double* factor;
  __device__ C operator()(C g) const { return g * C(*factor); }
};

template <typename C>
struct Clamp {
  C limit;
  __device__ C operator()(C g) const { return g < -limit ? -limit : g > limit ? limit : g; }
};

template <typename T, typename F>
__global__ void __launch_bounds__(kThreads) each_gradient_kernel(Batch<T*> batch, F f) {
  int k = 0;
  for (int64_t number = blockIdx.x; number < batch.pieces(); number += gridDim.x) {
    const Piece piece = batch.piece(number, k);
    T* g = batch.items[k];
    for (int64_t i = piece.first + threadIdx.x; i < piece.end; i += blockDim.x)
      g[i] = narrow<T>(f(widen(g[i])));
  }
}

/// Computes g = f(g) for every element of the gradients.
template <typename T, typename F>
void for_each_gradient(const Gradients& gradients, const F& f) {
  for_each_list<T>(gradients, [&](const Batch<T*>& batch) {
    launch(grid_for(batch.pieces(), 1, gradients.list.front()), &each_gradient_kernel<T, F>, batch,
           f);
  });
}

template <typename T>
void scale_gradients(const Gradients& gradients, const Tensor& factor) {
  for_each_gradient<T>(gradients, Scale<Compute<T>>{factor.data<double>()});
}

template <typename T>
void clamp_gradients(const Gradients& gradients, double limit) {
  for_each_gradient<T>(gradients, Clamp<Compute<T>>{Compute<T>(limit)});
}

/// Merges sums of powers, or, for an infinite norm, largest elements.
struct MergePowers {
  bool largest;
  __device__ double operator()(double a, double b) const {
    if (!largest) return a + b;
    return a < b || b != b ? b : a;  // NaN wins
  }
};

/// parts[n] is the sum of |g|^p, or the largest |g|, of piece n.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    powers_kernel(Batch<T*> batch, double p, MergePowers merge, double* parts) {
  int k = 0;
  for (int64_t number = blockIdx.x; number < batch.pieces(); number += gridDim.x) {
    const Piece piece = batch.piece(number, k);
    const T* g = batch.items[k];
    double sum = 0;
    for (int64_t i = piece.first + threadIdx.x; i < piece.end; i += blockDim.x) {
      const double size = std::fabs(double(widen(g[i])));
      const double power = p == 2                    ? size * size
                           : p == 1 || merge.largest ? size
                                                     : std::pow(size, p);
      sum = merge(sum, power);
    }
    sum = BlockTeam::reduce(sum, merge);
    if (threadIdx.x == 0) parts[number] = sum;
  }
}

/// A single block adds the parts to the total.
__global__ void __launch_bounds__(kThreads)
    add_parts(int64_t count, const double* parts, MergePowers merge, double* total) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kThreads) sum = merge(sum, parts[i]);
  sum = BlockTeam::reduce(sum, merge);
  if (threadIdx.x == 0) *total = merge(*total, sum);
}

template <typename T>
void add_powers(const Gradients& gradients, double p, Tensor& total) {
  const MergePowers merge{std::isinf(p)};
  int64_t count = 0;
  for (const Tensor& g : gradients.list) count += pieces_of(g.numel());
  if (count == 0) return;
  const Tensor parts = Tensor::empty({count}, f64, total.device());
  double* to = parts.data<double>();
  for_each_list<T>(gradients, [&](const Batch<T*>& batch) {
    launch(grid_for(batch.pieces(), 1, total), &powers_kernel<T>, batch, p, merge, to);
    to += batch.pieces();
  });
  launch({1, kThreads, stream_of(total)}, &add_parts, count, parts.data<double>(), merge,
         total.data<double>());
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

void update_scale(Tensor& scale, Tensor& tracker, const Tensor& found_inf,
                  const kernels::ScaleRule& rule) {
  for_each(1, scale,
           NextScale{scale.data<double>(), tracker.data<int64_t>(), found_inf.data<bool>(), rule});
}

}  // namespace

void register_update() {
  formulas::for_each_optimizer([]<auto & kKernel, template <typename> class Formula>(
      formulas::Optimizer<kKernel, Formula>) {
    set<kKernel>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { update<T, Formula>(a...); });
  });
  set<kernels::unscale>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { unscale<T>(a...); });
  set<kernels::scale_gradients>(
      kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { scale_gradients<T>(a...); });
  set<kernels::clamp_gradients>(
      kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { clamp_gradients<T>(a...); });
  set<kernels::add_powers>(kFloatTypes,
                           []<typename T>(TypeTag<T>, auto&... a) { add_powers<T>(a...); });
  set<kernels::update_scale>(TypeList<double>{}, [](auto, auto&... a) { update_scale(a...); });
}

}  // namespace tapegrad::backends::cuda
