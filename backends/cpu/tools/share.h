// Division of a kernel's work among threads.
#pragma once

#include <cstdint>
#include <exception>

namespace tapegrad::backends::cpu {

inline constexpr int64_t kParallel = int64_t(1) << 15;  // elements that justify a second thread

/// Calls run(task) for each of `count` tasks, on several threads if `pays`. Otherwise OpenMP is not
/// used: its team of one thread takes longer than a kernel for a few rows. run must not throw.
template <typename Run>
void share_tasks(int64_t count, bool pays, const Run& run) {
  if (!pays) {
    for (int64_t task = 0; task < count; ++task) run(task);
    return;
  }
#pragma omp parallel for
  for (int64_t task = 0; task < count; ++task) run(task);
}

// One product with more multiplications keeps all threads busy.
inline constexpr int64_t kParallelProduct = int64_t(1) << 21;
// A product or batch with fewer multiplications does not justify a second thread.
inline constexpr int64_t kSerialProduct = int64_t(1) << 15;

/// Calls multiply(i) for each of `batch` products of `work` multiplications: on several threads,
/// unless each product keeps all threads busy or the batch is too small. Throws an error of
/// multiply.
template <typename Multiply>
void share_products(int64_t batch, int64_t work, const Multiply& multiply) {
  if (batch == 1 || work > kParallelProduct || batch * work < kSerialProduct) {
    for (int64_t i = 0; i < batch; ++i) multiply(i);
    return;
  }
  std::exception_ptr error;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < batch; ++i) {
    try {
      multiply(i);
    } catch (...) {
#pragma omp critical(tapegrad_products)
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace tapegrad::backends::cpu
