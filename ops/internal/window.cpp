#include "ops/internal/window.h"

#include <string>
#include <vector>

#include "core/base/error.h"
#include "ops/internal/limits.h"

namespace tapegrad {
namespace {

/// The number of windows, or -1 if no window fits.
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

void require_images(std::string_view op, const Shape& x) {
  if (x.rank() != 4) fail<ShapeError>(op, ": [batch, channels, height, width] wanted: ", x);
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
