// Number and validity of windows, shared by convolution, unfolding and pooling.
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
  bool ceil_mode = false;  // also count a last window that begins inside but ends outside
};

/// Returns the number of windows in height and width. Throws ArgumentError for an invalid option,
/// and ShapeError if a window is larger than the padded image.
Size2d count_windows(std::string_view op, const Shape& image, const Windows& windows);

/// Throws ArgumentError unless both numbers are in [least, 2^31 - 1].
void require_from(std::string_view op, std::string_view what, Size2d value, int64_t least);

/// Checks the options only; throws ArgumentError.
void check_windows(std::string_view op, const Windows& windows);

/// Options of a transposed convolution along one dimension.
struct TransposedWindows {
  int64_t kernel, stride, padding, output_padding, dilation;
};
/// Returns the size of the result. Throws ArgumentError if output_padding is not less than the
/// stride or the dilation, and ShapeError if the result is empty or too large. Other options have
/// been checked.
int64_t transposed_size(std::string_view op, int64_t size, const TransposedWindows& windows);

/// Throws ShapeError unless x is [batch, channels, height, width].
void require_images(std::string_view op, const Shape& x);

/// Checks groups, and that weight [out, in / groups, ...] and bias fit x [batch, in, ...].
void check_conv_operands(std::string_view op, const Tensor& x, const Tensor& weight,
                         const Tensor& bias, int64_t groups);

/// Read an attribute that is one number for all dimensions, or one number for each dimension.
int64_t size1d(const Arguments& arguments, std::string_view name);
Size2d size2d(const Arguments& arguments, std::string_view name);
Size3d size3d(const Arguments& arguments, std::string_view name);

}  // namespace tapegrad
