// Shared by the sources of data/; not part of the public interface.
#pragma once

#include "data/mnist.h"

namespace tapegrad {

/// uint8 images [N, height, width] and labels [N] as the options want them.
TensorDataset arrange_mnist(const Variable& images, const Variable& labels,
                            const MnistOptions& options);

}  // namespace tapegrad
