// A table of a model's layers, in the format of Keras.
//
//   std::cout << nn::summary(model, {1, 28, 28});
#pragma once

#include "nn/module.h"

namespace tapegrad::nn {

/// Returns layer, output shape and parameter count of each part, and the totals. Runs
/// infer(input_shape), without the batch dimension. A part that forward() does not run has no
/// shape.
/// A parameter that has several names, because modules were copied or a weight is tied, counts once
/// and is listed with its names. Copy a module with clone() to copy its parameters.
std::string summary(Module& model, const Shape& input_shape);

}  // namespace tapegrad::nn
