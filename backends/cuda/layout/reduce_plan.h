// Plan of a reduction: maps elements of a strided tensor to results.
#pragma once

#include "core/base/host_device.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// A loop nest; offset(i) is the offset of its i-th element.
struct Nest {
  int rank = 0;
  int64_t sizes[kMaxRank] = {};
  int64_t steps[kMaxRank] = {};

  TG_HD int64_t offset(int64_t i) const {
    int64_t at = 0;
    for (int d = rank - 1; d > 0; --d) {
      at += i % sizes[d] * steps[d];
      i /= sizes[d];
    }
    return rank > 0 ? at + i * steps[0] : 0;
  }
};

struct ReductionPlan {
  Nest kept, reduced;
  int64_t outputs = 0, reduced_count = 0;
  int64_t pieces = 1;  // parts of the reduced elements
  int lanes = 1;       // threads per piece: a warp, or 1 for few elements or for columns
};

/// y has x's rank, with size 1 where x is reduced.
ReductionPlan plan_reduction(const Tensor& x, const Tensor& y);

}  // namespace tapegrad::backends::cuda
