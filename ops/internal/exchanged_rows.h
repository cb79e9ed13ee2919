// Row exchanges of LU factors as permutations.
#pragma once

#include "core/base/host_device.h"
#include "core/dispatch/dispatcher.h"

namespace tapegrad {

/// Returns which of n rows is at place `row` after row i was exchanged with row with[i], for i = 0,
/// 1, ..., n - 1.
TG_HD inline int64_t row_before_exchanges(const int64_t* with, int64_t n, int64_t row) {
  for (int64_t i = n - 1; i >= 0; --i) row = row == i ? with[i] : row == with[i] ? i : row;
  return row;
}

namespace kernels {

/// Computes rows[b, i] = row_before_exchanges(with[b], n, i). Both tensors are contiguous, int64
/// and [batch, n].
extern Kernel<void(const Tensor& with, Tensor& rows)> exchanged_rows;

}  // namespace kernels
}  // namespace tapegrad
