// Sorting by keys, and what follows from it: sums over elements that go to one place, in the order
// of the elements, so that the result is always the same.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// Keys in order, and where each stood.
struct Sorted {
  Tensor keys;   // int64: bits of unsigned numbers
  Tensor order;  // int64
};

/// Stable, by the lowest `bits` of contiguous keys, as unsigned numbers.
Sorted sort_keys(const Tensor& keys, int bits);
/// Sorts anew what is sorted already: keys[i] belongs to what stands at sorted.order[i].
Sorted sort_again(const Tensor& keys, const Tensor& order, int bits);

/// Bits of numbers below `bound`.
int bits_for(int64_t bound);

}  // namespace tapegrad::backends::cuda
