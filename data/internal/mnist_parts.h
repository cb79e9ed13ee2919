// Images and labels in the layout of MnistOptions. Not part of the public interface.
#pragma once

#include "data/mnist.h"

namespace tapegrad {

/// Rows and columns of an image of MNIST, and of drawn and enlarged digits.
inline constexpr int kImageSide = 28;

/// Converts uint8 images [N, height, width] and labels [N] to the layout of the options.
TensorDataset arrange_mnist(const Variable& images, const Variable& labels,
                            const MnistOptions& options);

}  // namespace tapegrad
