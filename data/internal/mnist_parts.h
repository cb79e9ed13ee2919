// Images and labels in the layout of MnistOptions. Not part of the public interface.
#pragma once

#include "data/mnist.h"

namespace tapegrad {

/// Converts uint8 images [N, height, width] and labels [N] to the layout of the options.
TensorDataset arrange_mnist(const Variable& images, const Variable& labels,
                            const MnistOptions& options);

}  // namespace tapegrad
