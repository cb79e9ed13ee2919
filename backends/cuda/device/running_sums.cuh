// Running sums of integers that begin anew at some elements, by Thrust's scan. Thrust's scan by key
// does the same, but ptxas spills registers of its kernel for compute capability 9.0.
#pragma once

#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <thrust/iterator/transform_output_iterator.h>
#include <thrust/scan.h>

#include "core/base/host_device.h"

namespace tapegrad::backends::cuda {

/// Sum of a range of elements, since the last one in the range that begins a sum.
struct RangeSum {
  uint64_t sum;
  uint64_t begins;  // not 0 if an element of the range begins a sum
};
struct AddRanges {
  TG_HD RangeSum operator()(RangeSum a, RangeSum b) const {
    return {b.begins ? b.sum : a.sum + b.sum, a.begins | b.begins};
  }
};
struct SumOfRange {
  TG_HD uint64_t operator()(RangeSum range) const { return range.sum; }
};

/// Writes the running sums of `count` elements. load(i) returns element i as a range.
template <typename Policy, typename Load>
void running_sums(const Policy& policy, int64_t count, const Load& load, uint64_t* to) {
  const auto from = thrust::make_transform_iterator(thrust::counting_iterator<int64_t>(0), load);
  thrust::inclusive_scan(policy, from, from + count,
                         thrust::make_transform_output_iterator(to, SumOfRange{}), AddRanges{});
}

}  // namespace tapegrad::backends::cuda
