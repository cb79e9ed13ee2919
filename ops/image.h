// Rearranging and padding images and other signals.
#pragma once

#include <vector>

#include "core/tape/variable.h"

namespace tapegrad {

/// [..., c r^2, h, w] -> [..., c, h r, w r]: each pixel's r^2 channels become a block of pixels.
/// ShapeError when r^2 does not divide the channels.
Variable pixel_shuffle(const Variable& x, int64_t upscale_factor, Where where = Where::current());
/// The inverse: [..., c, h r, w r] -> [..., c r^2, h, w].
Variable pixel_unshuffle(const Variable& x, int64_t downscale_factor,
                         Where where = Where::current());
/// Channels (dimension 1) dealt out anew: channel i of group g becomes channel g of group i.
Variable channel_shuffle(const Variable& x, int64_t groups, Where where = Where::current());

enum class PadMode {
  kConstant,   // a value
  kReflect,    // mirrored, without repeating the border: less padding than elements
  kReplicate,  // the border repeated
  kCircular,   // the other end: no more padding than elements
};
/// Padding as ops/view.h's pad takes it, by what x itself holds; `value` is of kConstant. A
/// negative amount cuts off. ShapeError when there are too few elements.
Variable pad(const Variable& x, const std::vector<int64_t>& amounts, PadMode mode,
             double value = 0.0, Where where = Where::current());

}  // namespace tapegrad
