// Gradient of the weight of a convolution of one group, with vectors along image rows.
#pragma once

#include "backends/cpu/fast/conv_rows.h"

namespace tapegrad::backends::cpu {

/// Sets the rows of dy, or the images if these are small, whose products are added before the lanes
/// of the sums are joined. Their number does not depend on the number of threads. The padded part
/// stays in the second-level cache, if enough rows fit.
void set_gradient_band(RowSizes& s);

/// Returns whether the sums of each lane are long enough to be worth joining, and whether the
/// padded part stays in the cache. `s` has the band of set_gradient_band().
bool has_long_gradient_sums(const RowSizes& s);

/// Computes dw, and db unless it is null. `from_relu` is the result of a ReLU behind the
/// convolution, or null.
void small_weight_gradient(RowSizes s, const float* dy, const float* from_relu, const float* x,
                           float* dw, float* db);

}  // namespace tapegrad::backends::cpu
