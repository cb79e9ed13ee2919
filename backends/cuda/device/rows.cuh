// Rows of a contiguous tensor [outer, n, inner], along its middle dimension.
#pragma once

#include "core/base/host_device.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

struct Rows {
  int64_t count, n;
  int64_t step;  // from an element of a row to the next; 1 where rows are contiguous

  explicit Rows(const Tensor& x)
      : count(x.shape()[0] * x.shape()[2]), n(x.shape()[1]), step(x.shape()[2]) {}

  TG_HD int64_t begin(int64_t row) const { return row / step * n * step + row % step; }
};

}  // namespace tapegrad::backends::cuda
