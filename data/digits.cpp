// Synthetic digits drawn with a pen, for machines without a data set.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/base/error.h"
#include "data/internal/mnist_parts.h"

namespace tapegrad {
namespace {

constexpr int64_t kPixels = kImageSide * kImageSide;

struct Point {
  double x, y;
};
using Stroke = std::vector<Point>;

/// Points on an ellipse between two angles in degrees; 0 is right, 90 is down.
Stroke arc(double x, double y, double rx, double ry, double from, double to) {
  Stroke points;
  const int steps = std::max(2, int(std::abs(to - from) / 20.0));
  for (int i = 0; i <= steps; ++i) {
    const double angle = (from + (to - from) * i / steps) * std::numbers::pi / 180.0;
    points.push_back({x + rx * std::cos(angle), y + ry * std::sin(angle)});
  }
  return points;
}

Stroke join(Stroke a, const Stroke& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Strokes of each digit in a box [-1, 1] x [-1, 1]; y points down.
const std::array<std::vector<Stroke>, 10>& digit_strokes() {
  static const std::array<std::vector<Stroke>, 10> strokes = {{
      {arc(0, 0, 0.6, 0.95, 0, 360)},
      {{{-0.35, -0.6}, {0.1, -0.95}, {0.1, 0.95}}},
      {join(arc(0, -0.45, 0.58, 0.5, -170, 25), {{-0.6, 0.95}, {0.65, 0.95}})},
      {join(arc(-0.05, -0.48, 0.55, 0.46, -160, 85), arc(-0.05, 0.47, 0.62, 0.5, -85, 155))},
      {{{0.2, -0.95}, {-0.65, 0.35}, {0.7, 0.35}}, {{0.3, -0.2}, {0.3, 0.95}}},
      {join({{0.55, -0.95}, {-0.45, -0.95}, {-0.5, -0.1}}, arc(-0.02, 0.35, 0.6, 0.6, -120, 150))},
      {join({{0.4, -0.95}, {-0.2, -0.5}, {-0.55, 0.1}}, arc(0, 0.42, 0.55, 0.53, 180, -180))},
      {{{-0.6, -0.9}, {0.62, -0.9}, {-0.1, 0.95}}},
      {arc(0, -0.47, 0.46, 0.46, 90, 450), arc(0, 0.47, 0.56, 0.48, -90, 270)},
      {join(arc(0, -0.42, 0.55, 0.53, 0, 360), {{0.5, 0.2}, {0.3, 0.95}})},
  }};
  return strokes;
}

/// Uniform random numbers of one image.
class Chance {
 public:
  explicit Chance(uint64_t key) : key_(key) {}
  double between(double low, double high) {
    if (used_ == 4) {
      words_ = philox(key_, counter_++);
      used_ = 0;
    }
    return low + (high - low) * double(words_[used_++]) * 0x1p-32;
  }

 private:
  uint64_t key_, counter_ = 0;
  std::array<uint32_t, 4> words_{};
  size_t used_ = 4;
};

double distance_to_segment(Point p, Point a, Point b) {
  const double dx = b.x - a.x, dy = b.y - a.y, length = dx * dx + dy * dy;
  double along = length > 0 ? ((p.x - a.x) * dx + (p.y - a.y) * dy) / length : 0.0;
  along = std::clamp(along, 0.0, 1.0);
  return std::hypot(p.x - a.x - along * dx, p.y - a.y - along * dy);
}

void draw(int digit, Chance& chance, uint8_t* image) {
  const double turn = chance.between(-0.22, 0.22), slant = chance.between(-0.3, 0.3);
  const double wide = chance.between(6.0, 9.5), high = chance.between(8.0, 10.5);
  const double middle_x = 13.5 + chance.between(-2.5, 2.5);
  const double middle_y = 13.5 + chance.between(-2.5, 2.5);
  const double pen = chance.between(0.8, 1.7), ink = chance.between(200.0, 255.0);
  const double wobble = chance.between(0.0, 0.09);
  const double c = std::cos(turn), s = std::sin(turn);

  std::array<double, kPixels> coverage{};
  for (const Stroke& stroke : digit_strokes()[size_t(digit)]) {
    Stroke placed;
    for (Point p : stroke) {
      const double x = (p.x + chance.between(-wobble, wobble) - slant * p.y) * wide;
      const double y = (p.y + chance.between(-wobble, wobble)) * high;
      placed.push_back({middle_x + c * x - s * y, middle_y + s * x + c * y});
    }
    for (size_t i = 1; i < placed.size(); ++i) {
      const Point a = placed[i - 1], b = placed[i];
      const double reach = pen + 1.0;
      const int left = std::max(0, int(std::min(a.x, b.x) - reach));
      const int right = std::min(kImageSide - 1, int(std::max(a.x, b.x) + reach) + 1);
      const int top = std::max(0, int(std::min(a.y, b.y) - reach));
      const int bottom = std::min(kImageSide - 1, int(std::max(a.y, b.y) + reach) + 1);
      for (int y = top; y <= bottom; ++y)
        for (int x = left; x <= right; ++x) {
          const double distance = distance_to_segment({double(x), double(y)}, a, b);
          double& pixel = coverage[size_t(y * kImageSide + x)];
          pixel = std::max(pixel, std::clamp(pen + 0.5 - distance, 0.0, 1.0));
        }
    }
  }
  for (int64_t i = 0; i < kPixels; ++i) {
    const double value = coverage[size_t(i)] * ink + chance.between(-14.0, 18.0);
    image[i] = uint8_t(std::clamp(value, 0.0, 255.0));
  }
}

TensorDataset draw_many(int64_t count, uint64_t seed, uint64_t part, const MnistOptions& options) {
  if (count < 0) fail<ArgumentError>("make_digits: a negative number of images: ", count);
  Tensor images = Tensor::empty({count, kImageSide, kImageSide}, u8),
         labels = Tensor::empty({count}, u8);
  uint8_t* image = images.data<uint8_t>();
  uint8_t* label = labels.data<uint8_t>();
  const auto mixed = philox(seed, part);
  const uint64_t key = uint64_t(mixed[0]) << 32 | mixed[1];
  for (int64_t i = 0; i < count; ++i) {
    const auto words = philox(key, uint64_t(i));
    label[i] = uint8_t(words[2] % 10);
    const uint64_t image_key = uint64_t(words[0]) << 32 | words[1];
    Chance chance(image_key);
    draw(label[i], chance, image + i * kPixels);
  }
  return arrange_mnist(Variable(images), Variable(labels), options);
}

}  // namespace

Mnist make_digits(DigitsOptions options) {
  return {draw_many(options.train, options.seed, 0, options.images),
          draw_many(options.test, options.seed, 1, options.images)};
}

}  // namespace tapegrad
