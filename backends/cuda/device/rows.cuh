// Rows of a contiguous tensor [outer, n, inner], along its middle dimension.
#pragma once

#include "core/base/host_device.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

struct Rows {
  int64_t count, n;
  int64_t step;  // stride of a row's elements; 1 if rows are contiguous

  explicit Rows(const Tensor& x)
      : count(x.shape()[0] * x.shape()[2]), n(x.shape()[1]), step(x.shape()[2]) {}

  TG_HD int64_t begin(int64_t row) const { return row / step * n * step + row % step; }
};

}  // namespace tapegrad::backends::cuda
