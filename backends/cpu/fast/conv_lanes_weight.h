// Gradient of the weight of a convolution of one group, with channels in lanes: only the channels
// of one side fill vectors, and rows of any length leave no lanes unused.
#pragma once

#include "backends/cpu/fast/conv_rows.h"

namespace tapegrad::backends::cpu {

/// Returns the products of weight_gradient_in_lanes() for each position, with those of unused
/// lanes; infinity if there are too few channels.
double products_in_lanes(const RowSizes& s, bool has_outputs_in_lanes);

/// Computes dw, and db unless it is null. Output channels lie in lanes, or input channels.
/// `from_relu` is the result of a ReLU behind the convolution, or null.
void weight_gradient_in_lanes(RowSizes s, const float* dy, const float* from_relu, const float* x,
                              bool has_outputs_in_lanes, float* dw, float* db);

}  // namespace tapegrad::backends::cpu
