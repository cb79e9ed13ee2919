// Values that ops read on the host to decide what to do, such as the size of a result.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/number.h"
#include "core/base/tensor.h"

namespace tapegrad::detail {

/// Returns the values of x on the CPU, contiguous. Only library code may decide by them, which has
/// no other effect on the host: a repetition of a step does not run the code. A captured step on
/// the CPU is repeated while the values are equal, and recorded again otherwise; a captured step on
/// a GPU ends.
Tensor host_values(const Tensor& x);
/// Returns the only element of x, like host_values().
Number host_number(const Tensor& x);
/// Returns the elements of x as integers, like host_values().
std::vector<int64_t> host_integers(const Tensor& x);

}  // namespace tapegrad::detail
