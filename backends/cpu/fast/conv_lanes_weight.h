// Gradient of the weight of a convolution of one group, with channels in lanes: only the channels
// of one side fill vectors, and rows of any length leave no lanes unused.
#pragma once

#include "backends/cpu/fast/conv_rows.h"
#include "ops/conv.h"

namespace tapegrad::backends::cpu {

/// Returns the products of weight_gradient_in_lanes() for each position, with those of unused
/// lanes; infinity if there are too few channels.
double products_in_lanes(const RowSizes& s, bool has_outputs_in_lanes);

/// Computes dw, and db unless it is empty. Output channels lie in lanes, or input channels.
/// `behind` is a ReLU or nothing.
void weight_gradient_in_lanes(const Tensor& dy, const Epilogue& behind, const Tensor& x,
                              const Conv2dOptions& options, bool has_outputs_in_lanes, Tensor& dw,
                              Tensor& db);

}  // namespace tapegrad::backends::cpu
