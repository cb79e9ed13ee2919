// Measures the limits of this machine: float32 multiply-adds and memory copies, with all OpenMP
// threads.
#include <omp.h>

#include <cstring>

#include "benchmarks/measure.h"

namespace {

#ifdef __AVX512F__
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif
using Vector [[gnu::vector_size(kLanes * sizeof(float))]] = float;

/// Number of independent sums that hides the latency of an addition.
constexpr int kSums = 12;
constexpr int64_t kRounds = 20'000'000;

double multiply_adds() {
  Vector sums[kSums] = {};
  Vector factor = Vector{} + 0.999F, term = Vector{} + 0.001F;
  // Without unknown values, which differ, g++ merges equal sums.
  for (Vector& sum : sums) asm volatile("" : "+v"(sum));
  for (int64_t round = 0; round < kRounds; ++round) {
#pragma GCC unroll 12
    for (Vector& sum : sums) sum = sum * factor + term;
    asm volatile("" : "+v"(factor));  // prevents constant folding of the loop
  }
  double total = 0;
  for (const Vector& sum : sums) total += double(sum[0]);
  return total;
}

double best_of(int count, auto call) {
  double best = 1e30;
  for (int i = 0; i < count; ++i) {
    const double begin = bench::seconds();
    call();
    best = std::min(best, bench::seconds() - begin);
  }
  return best;
}

}  // namespace

int main() {
  const int threads = omp_get_max_threads();
  double sink = 0;
  const double time = best_of(3, [&] {
#pragma omp parallel reduction(+ : sink)
    sink += multiply_adds();
  });
  const double operations = 2.0 * kLanes * kSums * double(kRounds) * threads;
  bench::print_line("limit.multiply_add", operations / time * 1e-9 + 0 * sink, "GFLOP/s");

  constexpr int64_t kBytes = 40'000'000;  // ten million floats, as in ops.cpp
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  const double copy = best_of(30, [&] {
#pragma omp parallel for
    for (int64_t i = 0; i < 64; ++i) {
      const int64_t part = kBytes / 64;
      std::memcpy(to.data() + i * part, from.data() + i * part, size_t(part));
    }
  });
  bench::print_line("limit.copy", 2.0 * double(kBytes) / copy * 1e-9, "GB/s");
}
