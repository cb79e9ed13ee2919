// Optimizer steps: one loop over the parameter, its gradient and the state.
#include "ops/update.h"

#include <algorithm>

#include "backends/cpu/register.h"
#include "backends/formulas_update.h"

namespace tapegrad::backends::cpu {
namespace {

#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"  // with sanitizers the loop is not vectorised
#endif

/// Calls f(i) for the elements [first, last). f is a copy, whose pointers and factors stay in
/// registers; with a reference the compiler uses gather instructions.
template <typename F>
void run_elements(int64_t first, int64_t last, F f) {
#pragma omp simd
  for (int64_t i = first; i < last; ++i) f(i);
}

/// Calls f(i) for every element. Few elements have no parallel region: one thread would allocate a
/// team for it, which takes longer than a small parameter.
template <typename F>
void for_each_updated(int64_t count, const F& f) {
  constexpr int64_t kBlock = 16384;
  if (count <= 2 * kBlock) return run_elements(0, count, f);
  const int64_t blocks = (count + kBlock - 1) / kBlock;
#pragma omp parallel for schedule(static)
  for (int64_t block = 0; block < blocks; ++block)
    run_elements(block * kBlock, std::min(count, (block + 1) * kBlock), f);
}

template <typename T, template <typename> class Formula, typename Step>
void update(const ParamUpdates& params, const Step& step, const StepGuard& guard) {
  using C = Compute<T>;
  if (guard.found_inf && *guard.found_inf.data<bool>()) return;
  const int64_t skipped = guard.skipped ? *guard.skipped.data<int64_t>() : 0;
  for (const ParamUpdate& u : params.list) {
    T* p = u.param.data<T>();
    const T* g = u.grad.data<T>();
    const Formula<C> formula(step, u.t - skipped);
    formulas::with_state<Formula, C>(u, [&](auto state) {
      for_each_updated(u.param.numel(),
                       [=](int64_t i) { p[i] = T(state.step(formula, i, C(p[i]), C(g[i]))); });
    });
  }
}

/// Multiplies by 1 / scale, which is computed in float64 and rounded once.
template <typename T>
void unscale(const Tensor& gradient, double scale, bool& found_inf) {
  using C = Compute<T>;
  constexpr int64_t kBlock = 16384;
  T* g = gradient.data<T>();
  const C inverse(1 / scale);
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
  if (found) found_inf = true;
}
template <typename T>
void unscale(const Gradients& gradients, const Tensor& scale, Tensor& found_inf) {
  for (const Tensor& g : gradients.list)
    unscale<T>(g, *scale.data<double>(), *found_inf.data<bool>());
}

void update_scale(Tensor& scale, Tensor& tracker, const Tensor& found_inf,
                  const kernels::ScaleRule& rule) {
  kernels::next_scale(*scale.data<double>(), *tracker.data<int64_t>(), *found_inf.data<bool>(),
                      rule);
}

}  // namespace

void register_update() {
  formulas::for_each_optimizer([]<auto & kKernel, template <typename> class Formula>(
      formulas::Optimizer<kKernel, Formula>) {
    set<kKernel>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { update<T, Formula>(a...); });
  });
  set<kernels::unscale>(kFloatTypes, []<typename T>(TypeTag<T>, auto&... a) { unscale<T>(a...); });
  set<kernels::update_scale>(TypeList<double>{}, [](auto, auto&... a) { update_scale(a...); });
}

}  // namespace tapegrad::backends::cpu
