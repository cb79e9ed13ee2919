// The handwritten digits of Debian's package python3-sklearn.
#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "data/internal/mnist_parts.h"

namespace tapegrad {
namespace {

constexpr int kFileSide = 8, kMostGrey = 16, kScale = 3;
constexpr int kBorder = (kImageSide - kScale * kFileSide) / 2;

std::string read_text(const std::string& path) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  if (!file) fail<IoError>("load_digits: cannot open ", path);
  std::string text;
  char buffer[1 << 14];
  int got = 0;
  while ((got = gzread(file.get(), buffer, sizeof buffer)) > 0) text.append(buffer, size_t(got));
  if (got < 0) fail<FormatError>("load_digits: ", path, ": the gzip stream is damaged");
  return text;
}

/// Enlarges an image by linear interpolation between the centres of its pixels.
void enlarge(const std::vector<int>& pixels, uint8_t* image) {
  const auto pixel = [&](int row, int column) {
    row = std::clamp(row, 0, kFileSide - 1);
    column = std::clamp(column, 0, kFileSide - 1);
    return double(pixels[size_t(row * kFileSide + column)]);
  };
  for (int row = 0; row < kScale * kFileSide; ++row)
    for (int column = 0; column < kScale * kFileSide; ++column) {
      const double y = (row + 0.5) / kScale - 0.5, x = (column + 0.5) / kScale - 0.5;
      const int y0 = int(std::floor(y)), x0 = int(std::floor(x));
      const double upper = pixel(y0, x0) + (x - x0) * (pixel(y0, x0 + 1) - pixel(y0, x0));
      const double lower =
          pixel(y0 + 1, x0) + (x - x0) * (pixel(y0 + 1, x0 + 1) - pixel(y0 + 1, x0));
      image[(row + kBorder) * kImageSide + column + kBorder] =
          uint8_t(std::lround((upper + (y - y0) * (lower - upper)) * 255 / kMostGrey));
    }
}

struct Part {
  std::vector<uint8_t> images, labels;

  void add(const std::vector<int>& numbers) {
    images.resize(images.size() + kImageSide * kImageSide);
    enlarge(numbers, images.data() + images.size() - kImageSide * kImageSide);
    labels.push_back(uint8_t(numbers.back()));
  }
  TensorDataset data(const MnistOptions& options) const {
    const int64_t n = int64_t(labels.size());
    return arrange_mnist(Variable(Tensor::from<uint8_t>(images, {n, kImageSide, kImageSide})),
                         Variable(Tensor::from<uint8_t>(labels, {n})), options);
  }
};

}  // namespace

Mnist load_digits(const std::string& path, MnistOptions options) {
  const std::string text = read_text(path);
  Part train, test;
  int64_t line = 0;
  std::vector<int> numbers;
  for (const char *at = text.data(), *end = at + text.size(); at < end; ++at) {
    int number = -1;
    const auto parsed = std::from_chars(at, end, number);
    const bool is_class = numbers.size() == kFileSide * kFileSide;
    if (parsed.ec != std::errc() || number < 0 || number > (is_class ? 9 : kMostGrey))
      fail<FormatError>("load_digits: ", path, ": line ", line + 1, ", number ", numbers.size() + 1,
                        " is not in [0, ", is_class ? 9 : kMostGrey, "]");
    numbers.push_back(number);
    at = parsed.ptr;
    const char expected = is_class ? '\n' : ',';
    if (at == end ? !is_class : *at != expected)
      fail<FormatError>("load_digits: ", path, ": line ", line + 1,
                        is_class ? " has more" : " has fewer", " than 65 numbers");
    if (!is_class) continue;
    (line++ % 6 == 5 ? test : train).add(numbers);
    numbers.clear();
  }
  if (!numbers.empty() || test.labels.empty())
    fail<FormatError>("load_digits: ", path, ": ends after ", line, " images");
  return {train.data(options), test.data(options)};
}

}  // namespace tapegrad
