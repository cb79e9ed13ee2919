// How often a window fits: the sizes that convolution, unfolding and pooling share.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/shape.h"
#include "ops/catalog.h"
#include "ops/conv.h"

namespace tapegrad {

struct Windows {
  Size2d kernel;
  Size2d stride = 1;
  Size2d padding = 0;
  Size2d dilation = 1;
  bool ceil_mode = false;  // count a last window that begins inside but ends outside
};

/// The number of windows down and across. ArgumentError when a size cannot be meant; ShapeError
/// when a window is larger than the padded image.
Size2d count_windows(std::string_view op, const Shape& image, const Windows& windows);

/// ArgumentError unless both are from `least` to 2^31 - 1.
void require_from(std::string_view op, std::string_view what, Size2d value, int64_t least);

/// The ArgumentErrors alone.
void check_windows(std::string_view op, const Windows& windows);

/// ShapeError unless x is [batch, channels, height, width].
void require_images(std::string_view op, const Shape& x);

/// An attribute of one number, which means all, or one for each dimension.
int64_t size1d(const Arguments& arguments, std::string_view name);
Size2d size2d(const Arguments& arguments, std::string_view name);
Size3d size3d(const Arguments& arguments, std::string_view name);

}  // namespace tapegrad
