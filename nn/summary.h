// A table of a model's layers, as Keras prints it.
//
//   std::cout << nn::summary(model, {1, 28, 28});
#pragma once

#include "nn/module.h"

namespace tapegrad::nn {

/// Layer, output shape and parameters of each part, and the totals. Runs infer(input_shape), the
/// batch dimension left out. A part that forward() does not run has no shape.
std::string summary(Module& model, const Shape& input_shape);

}  // namespace tapegrad::nn
