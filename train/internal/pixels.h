// Conversion of tensors to pictures. Not part of the public interface.
#pragma once

#include "core/tape/variable.h"
#include "train/internal/png.h"

namespace tapegrad {

/// Returns a picture of pixels in [0, 1], or of bytes: [H, W], [C, H, W] or, as a grid, [N, C, H,
/// W], with 1 or 3 channels. Throws ShapeError for other shapes.
Picture picture_of(const Variable& pixels);

}  // namespace tapegrad
