// Overhead of an op: the chain y = y * a + b on one float32 element. Times are per op; a link of
// the chain has two ops.
#include <benchmark/benchmark.h>

#include "core/tape/recording.h"
#include "ops/binary.h"

namespace tapegrad {
namespace {

constexpr int kLinks = 64;

Variable one_element(double value) { return Variable(Tensor::full({1}, value, f32)); }

Variable chain(Variable y, const Variable& a, const Variable& b) {
  for (int i = 0; i < kLinks; ++i) y = y * a + b;
  return y;
}

void report(benchmark::State& state) {
  using benchmark::Counter;
  state.counters["per_op"] =
      Counter(double(state.iterations()) * 2 * kLinks, Counter::kIsRate | Counter::kInvert);
}

void forward(benchmark::State& state) {
  const NoGrad no_grad;
  const Variable x = one_element(1), a = one_element(0.999), b = one_element(0.001);
  for (auto _ : state) benchmark::DoNotOptimize(chain(x, a, b));
  report(state);
}
BENCHMARK(forward);

void forward_with_numbers(benchmark::State& state) {
  const NoGrad no_grad;
  for (auto _ : state) {
    Variable y = one_element(1);
    for (int i = 0; i < kLinks; ++i) y = y * 0.999 + 0.001;
    benchmark::DoNotOptimize(y);
  }
  report(state);
}
BENCHMARK(forward_with_numbers);

/// Records the graph and frees it.
void recorded(benchmark::State& state) {
  const Variable x = one_element(1).requires_grad_();
  const Variable a = one_element(0.999), b = one_element(0.001);
  for (auto _ : state) benchmark::DoNotOptimize(chain(x, a, b));
  report(state);
}
BENCHMARK(recorded);

void forward_backward(benchmark::State& state) {
  const Variable x = one_element(1).requires_grad_();
  const Variable a = one_element(0.999), b = one_element(0.001);
  for (auto _ : state) chain(x, a, b).backward();
  report(state);
}
BENCHMARK(forward_backward);

void forward_backward_leaves(benchmark::State& state) {
  const Variable x = one_element(1).requires_grad_();
  const Variable a = one_element(0.999).requires_grad_(), b = one_element(0.001).requires_grad_();
  for (auto _ : state) chain(x, a, b).backward();
  report(state);
}
BENCHMARK(forward_backward_leaves);

}  // namespace
}  // namespace tapegrad

BENCHMARK_MAIN();
