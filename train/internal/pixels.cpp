#include "train/internal/pixels.h"

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace tapegrad {

Picture picture_of(const Variable& pixels) {
  const Shape& given = pixels.shape();
  const int rank = given.rank();
  if (rank < 2 || rank > 4 || pixels.numel() == 0)
    fail<ShapeError>("an image [H, W], [C, H, W] or [N, C, H, W] expected: ", given);
  const int64_t height = given[rank - 2], width = given[rank - 1];
  const int64_t channels = rank > 2 ? given[rank - 3] : 1, count = rank > 3 ? given[0] : 1;
  if (channels != 1 && channels != 3)
    fail<ShapeError>("an image of 1 or 3 channels expected: ", given);
  const auto columns = int64_t(std::ceil(std::sqrt(double(count))));
  const int64_t rows = (count + columns - 1) / columns;
  Picture picture{height * rows, width * columns, channels};
  picture.pixels.resize(size_t(picture.height * picture.width * channels));
  const double scale = is_float(pixels.dtype()) ? 255 : 1;
  const std::vector<double> values = pixels.to_vector<double>();
  for (int64_t i = 0; i < int64_t(values.size()); ++i) {
    const int64_t x = i % width, y = i / width % height, c = i / (width * height) % channels,
                  n = i / (width * height * channels);
    const int64_t to_y = n / columns * height + y, to_x = n % columns * width + x;
    const double value = std::isfinite(values[size_t(i)]) ? values[size_t(i)] * scale : 0;
    picture.pixels[size_t((to_y * picture.width + to_x) * channels + c)] =
        uint8_t(std::lround(std::clamp(value, 0.0, 255.0)));
  }
  return picture;
}

}  // namespace tapegrad
