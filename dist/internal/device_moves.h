// Sums of tensors on GPUs over the ranks, with the same bits as sums on the host (rank_sum.h). Has
// not run on a GPU.
#pragma once

#include "core/base/tensor.h"
#include "dist/communicator.h"
#include "dist/internal/nccl.h"

namespace tapegrad::dist {

/// Returns a view of `count` elements of a contiguous tensor, as a row.
Tensor elements(const Tensor& x, int64_t first, int64_t count);

struct Reduction {
  DType dtype;
  DType wire;  // dtype of the messages
  ReduceOp op;
};

/// Replaces a contiguous tensor by its sum over the ranks. Enqueues work in the current stream,
/// which must be the stream of the link.
void reduce_on_device(NcclLink& link, const Reduction& how, const Tensor& x);

/// Stores part r of the sum in `own` of rank r. Both are contiguous.
void reduce_scatter_on_device(NcclLink& link, const Reduction& how, const Tensor& x,
                              const Tensor& own);

}  // namespace tapegrad::dist
