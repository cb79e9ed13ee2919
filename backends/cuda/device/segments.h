// Sorting by keys, and sums of elements with equal keys, in the order of the elements, so that
// results are deterministic.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// Sorted keys and their original positions.
struct Sorted {
  Tensor keys;   // int64 with the bits of unsigned numbers
  Tensor order;  // int64
};

/// Sorts contiguous keys, as unsigned numbers, by their lowest `bits`. Stable.
Sorted sort_keys(const Tensor& keys, int bits);
/// Sorts again by further keys, where keys[i] belongs to the element at order[i].
Sorted sort_again(const Tensor& keys, const Tensor& order, int bits);

/// Running sums of whole numbers with equal keys: element i is the sum of source[order[k]] for all
/// k <= i with keys[k] = keys[i]. source is int64 and contiguous; sums wrap around.
Tensor running_sums(const Sorted& sorted, const Tensor& source);

/// Number of bits needed for numbers below `bound`.
int bits_for(int64_t bound);

}  // namespace tapegrad::backends::cuda
