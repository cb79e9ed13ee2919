#include "train/internal/svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_format.h"

#include "core/base/internal/escaped_text.h"

namespace tapegrad {

std::string svg_begin(int width, int height) {
  return absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
      "font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\">\n"
      "<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n",
      width, height, width, height, width, height);
}

std::string svg_text(double x, double y, std::string_view text, int size, TextAnchor anchor,
                     std::string_view more) {
  static constexpr std::array<const char*, 3> kAnchors = {"start", "middle", "end"};
  return absl::StrFormat(
      "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%d\" text-anchor=\"%s\" %s>%s</text>\n", x, y, size,
      kAnchors[size_t(anchor)], more.empty() ? "fill=\"#333333\"" : more, xml_escape(text));
}

std::string svg_line(double x1, double y1, double x2, double y2, std::string_view stroke,
                     double width) {
  return absl::StrFormat(
      "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke-width=\"%.1f\" "
      "stroke=\"%s\"/>\n",
      x1, y1, x2, y2, width, stroke);
}

std::vector<double> nice_ticks(double low, double high, int count) {
  std::vector<double> ticks;
  const double span = high - low;
  if (!(span > 0) || !std::isfinite(span)) return ticks;
  const double raw = span / std::max(1, count);
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (double factor : {1.0, 2.0, 5.0})
    if (factor * power >= raw * 0.999) {
      step = factor * power;
      break;
    }
  const double first = std::ceil(low / step - 1e-9);
  for (int i = 0; i < 100; ++i) {
    const double value = (first + i) * step;
    if (value > high + 1e-9 * span) break;
    ticks.push_back(std::abs(value) < 1e-9 * step ? 0.0 : value);
  }
  return ticks;
}

std::string tick_text(double value) { return absl::StrFormat("%g", value); }

std::string viridis(double t) {
  // The map at tenths of its range; between them it is close to linear.
  static constexpr std::array<uint32_t, 11> kColours = {0x440154, 0x482475, 0x414487, 0x355f8d,
                                                        0x2a788e, 0x21918c, 0x22a884, 0x44bf70,
                                                        0x7ad151, 0xbddf26, 0xfde725};
  const double at = std::clamp(std::isfinite(t) ? t : 0.0, 0.0, 1.0) * 10;
  const auto low = std::min<size_t>(size_t(at), 9);
  const double share = at - double(low);
  uint32_t colour = 0;
  for (int shift : {16, 8, 0}) {
    const double a = (kColours[low] >> shift) & 255, b = (kColours[low + 1] >> shift) & 255;
    colour |= uint32_t(std::lround(a + (b - a) * share)) << shift;
  }
  return absl::StrFormat("#%06x", colour);
}

}  // namespace tapegrad
