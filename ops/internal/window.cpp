#include "ops/internal/window.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/internal/shape_mismatch.h"
#include "core/tape/op.h"
#include "ops/internal/limits.h"

namespace tapegrad {
namespace {

/// Returns the number of windows, or -1 if no window fits.
int64_t count(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
              bool ceil_mode) {
  const int64_t room =
      size + 2 * padding - (dilation * (kernel - 1) + 1) + (ceil_mode ? stride - 1 : 0);
  if (room < 0) return -1;
  int64_t n = room / stride + 1;
  // The last window must begin inside the image or the padding before it.
  if (ceil_mode && (n - 1) * stride >= size + padding) --n;
  return n;
}

}  // namespace

void require_from(std::string_view op, std::string_view what, Size2d value, int64_t least) {
  if (value.height < least || value.width < least || value.height > detail::kMostCounted ||
      value.width > detail::kMostCounted)
    fail<ArgumentError>(op, ": ", what, " must be from ", least, " to 2^31 - 1: (", value.height,
                        ", ", value.width, ")");
}

void check_windows(std::string_view op, const Windows& w) {
  require_from(op, "kernel_size", w.kernel, 1);
  require_from(op, "stride", w.stride, 1);
  require_from(op, "padding", w.padding, 0);
  require_from(op, "dilation", w.dilation, 1);
}

Size2d count_windows(std::string_view op, const Shape& image, const Windows& w) {
  check_windows(op, w);
  const int r = image.rank();
  const int64_t height = count(image[r - 2], w.kernel.height, w.stride.height, w.padding.height,
                               w.dilation.height, w.ceil_mode);
  const int64_t width = count(image[r - 1], w.kernel.width, w.stride.width, w.padding.width,
                              w.dilation.width, w.ceil_mode);
  if (height < 0 || width < 0)
    fail<ShapeError>(op, ": the window is larger than the padded image: image ", image,
                     ", kernel_size (", w.kernel.height, ", ", w.kernel.width, "), dilation (",
                     w.dilation.height, ", ", w.dilation.width, "), padding (", w.padding.height,
                     ", ", w.padding.width, ")");
  return {height, width};
}

int64_t transposed_size(std::string_view op, int64_t size, const TransposedWindows& w) {
  if (w.output_padding < 0 || w.output_padding >= std::max(w.stride, w.dilation))
    fail<ArgumentError>(op, ": output_padding ", w.output_padding,
                        " must be less than the stride or the dilation");
  const int64_t reach = w.dilation * (w.kernel - 1) + w.output_padding + 1 - 2 * w.padding;
  int64_t result = -1;
  if (size < 1 || __builtin_mul_overflow(size - 1, w.stride, &result) ||
      __builtin_add_overflow(result, reach, &result) || result < 1)
    fail<ShapeError>(op, ": the result has no pixels: input size ", size, ", kernel_size ",
                     w.kernel, ", stride ", w.stride, ", padding ", w.padding, ", dilation ",
                     w.dilation);
  return result;
}

void require_images(std::string_view op, const Shape& x) {
  if (x.rank() != 4) fail<ShapeError>(op, ": [batch, channels, height, width] wanted: ", x);
}

void check_conv_operands(std::string_view op, const Tensor& x, const Tensor& weight,
                         const Tensor& bias, int64_t groups) {
  const Shape &image = x.shape(), &w = weight.shape();
  detail::require_count(op, "groups", groups);
  if (image[1] % groups != 0 || w[0] % groups != 0 || image[1] / groups != w[1])
    fail<ShapeError>(op, ": channels do not fit: input ", image, ", weight ", w, ", groups ",
                     groups, draw_mismatch({{"input", image, 1}, {"weight", w, 1}}));
  if (bias && bias.shape() != Shape{w[0]})
    fail<ShapeError>(op, ": bias ", bias.shape(), " does not fit weight ", w);
  check_same_device(op, x, weight, bias);
  check_same_dtype(op, x, weight, bias);
}

static std::vector<int64_t> sizes(const Arguments& arguments, std::string_view name, size_t most) {
  std::vector<int64_t> values = arguments.integers(name);
  if (values.size() != 1 && values.size() != most)
    fail<ArgumentError>("catalog: \"", name, "\" takes one number", most > 1 ? " or " : "",
                        most > 1 ? std::to_string(most) : "");
  values.resize(most, values.front());
  return values;
}
int64_t size1d(const Arguments& arguments, std::string_view name) {
  return sizes(arguments, name, 1)[0];
}
Size2d size2d(const Arguments& arguments, std::string_view name) {
  const std::vector<int64_t> values = sizes(arguments, name, 2);
  return {values[0], values[1]};
}
Size3d size3d(const Arguments& arguments, std::string_view name) {
  const std::vector<int64_t> values = sizes(arguments, name, 3);
  return {values[0], values[1], values[2]};
}

}  // namespace tapegrad
