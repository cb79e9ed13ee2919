// Sums and other reductions of the values of several ranks, always in the order of the ranks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/dtype.h"
#include "dist/communicator.h"

namespace tapegrad::dist {

/// out[i] = in[0][i] + in[1][i] + ... + in[ranks - 1][i], where in[r] begins r * count elements
/// after `in`; divided by the number of ranks for kMean. For other ops, + is replaced. Sixteen-bit
/// floats are reduced in float32 and rounded once.
void reduce_ranks(DType dtype, const std::byte* in, int ranks, int64_t count, ReduceOp op,
                  std::byte* out);

/// Converts between float dtypes.
void convert(DType from, const std::byte* in, DType to, std::byte* out, int64_t count);

}  // namespace tapegrad::dist
