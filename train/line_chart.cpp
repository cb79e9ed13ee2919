#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"

#include "core/base/error.h"
#include "io/atomic_file.h"
#include "train/internal/svg.h"
#include "train/plot.h"

namespace tapegrad {
namespace {

constexpr std::array<const char*, 6> kColours = {"#1f77b4", "#e6550d", "#31a354",
                                                 "#9467bd", "#8c564b", "#17becf"};

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  /// Adds a margin, and makes the range non-empty with a length above zero.
  void settle(double margin) {
    if (!(low <= high)) low = 0, high = 1;
    double room = (high - low) * margin;
    if (high == low) room = high == 0 ? 1 : std::abs(high) * 0.1;
    low -= room;
    high += room;
  }
};

class Chart {
 public:
  Chart(std::span<const PlotSeries> curves, const ChartOptions& options)
      : curves_(curves), options_(options) {
    for (const PlotSeries& curve : curves) {
      if (curve.x.size() != curve.y.size())
        fail<ShapeError>("line_chart: '", curve.name, "' has ", curve.x.size(), " x and ",
                         curve.y.size(), " y");
      for (size_t i = 0; i < curve.x.size(); ++i)
        if (is_point(curve, i)) {
          x_.add(place(curve.x[i]));
          y_.add(height(curve.y[i]));
        }
    }
    // The y axis starts at zero if the data is close to zero and the curves are not flattened too
    // much.
    if (!options.log_y && y_.low > 0 && y_.low < 0.4 * y_.high) y_.low = 0;
    const bool from_zero = !options.log_y && y_.low == 0 && y_.high > 0;
    x_.settle(0.02);
    y_.settle(0.06);
    if (from_zero) y_.low = 0;
    left_ = options.y_label.empty() ? 58 : 76;
    right_ = options.width - 22;
    top_ = options.title.empty() ? 22 : 48;
    bottom_ = options.height - (options.x_label.empty() ? 36 : 56);
  }

  std::string draw() const {
    return svg_begin(options_.width, options_.height) + axes() + lines() + legend() + "</svg>\n";
  }

 private:
  double place(double x) const { return options_.log_x ? std::log10(x) : x; }
  double height(double y) const { return options_.log_y ? std::log10(y) : y; }
  bool is_point(const PlotSeries& curve, size_t i) const {
    const auto fits = [](double value) { return std::abs(value) < 1e300; };  // so does a range
    return fits(place(curve.x[i])) && fits(height(curve.y[i]));
  }
  double across(double x) const {
    return left_ + (x - x_.low) / (x_.high - x_.low) * (right_ - left_);
  }
  double down(double y) const {
    return bottom_ - (y - y_.low) / (y_.high - y_.low) * (bottom_ - top_);
  }

  std::string axes() const {
    std::string svg;
    for (const auto& [x, text] : ticks(x_, options_.log_x, 8)) {
      svg += svg_line(across(x), top_, across(x), bottom_, "#ececec");
      svg += svg_text(across(x), bottom_ + 18, text, 12, TextAnchor::kMiddle);
    }
    for (const auto& [y, text] : ticks(y_, options_.log_y, 6)) {
      svg += svg_line(left_, down(y), right_, down(y), "#ececec");
      svg += svg_text(left_ - 8, down(y) + 4, text, 12, TextAnchor::kEnd);
    }
    svg += svg_line(left_, bottom_, right_, bottom_, "#666666");
    svg += svg_line(left_, top_, left_, bottom_, "#666666");
    const double middle = (left_ + right_) / 2;
    if (!options_.title.empty())
      svg += svg_text(middle, 29, options_.title, 17, TextAnchor::kMiddle,
                      "fill=\"#111111\" font-weight=\"bold\"");
    if (!options_.x_label.empty())
      svg += svg_text(middle, options_.height - 14, options_.x_label, 14, TextAnchor::kMiddle);
    if (!options_.y_label.empty()) {
      const double at = (top_ + bottom_) / 2;
      svg += svg_text(20, at, options_.y_label, 14, TextAnchor::kMiddle,
                      absl::StrFormat("fill=\"#333333\" transform=\"rotate(-90 20 %.1f)\"", at));
    }
    return svg;
  }

  /// Positions and labels of about `count` ticks of an axis.
  static std::vector<std::pair<double, std::string>> ticks(const Range& range, bool log,
                                                           int count) {
    std::vector<std::pair<double, std::string>> ticks;
    if (!log) {
      for (double tick : nice_ticks(range.low, range.high, count))
        ticks.emplace_back(tick, tick_text(tick));
      return ticks;
    }
    // Powers of ten; for a short range also 2 and 5 times each power.
    const double span = range.high - range.low;
    const int every = std::max(1, int(span / 7));
    for (int power = int(std::floor(range.low)); power <= int(std::ceil(range.high)); ++power)
      for (double factor : {1.0, 2.0, 5.0}) {
        const double at = power + std::log10(factor);
        if (at < range.low || at > range.high || (factor > 1 && span > 2) || power % every != 0)
          continue;
        ticks.emplace_back(at, tick_text(factor * std::pow(10.0, power)));
      }
    return ticks;
  }

  std::string lines() const {
    std::string svg;
    for (size_t c = 0; c < curves_.size(); ++c) {
      const PlotSeries& curve = curves_[c];
      std::string path, dots;
      size_t points = 0;
      bool down_yet = false;
      for (size_t i = 0; i < curve.x.size(); ++i) {
        if (!is_point(curve, i)) {
          down_yet = false;
          continue;
        }
        const double x = across(place(curve.x[i])), y = down(height(curve.y[i]));
        path += absl::StrFormat("%c%.1f %.1f ", down_yet ? 'L' : 'M', x, y);
        dots += absl::StrFormat("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\" fill=\"%s\"/>\n", x, y,
                                colour(c));
        down_yet = true;
        ++points;
      }
      if (points == 0) continue;
      path.pop_back();
      svg += absl::StrFormat(
          "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2.2\" stroke-linejoin=\"round\" "
          "d=\"%s\"/>\n",
          colour(c), path);
      if (points <= 40) svg += dots;
    }
    return svg;
  }

  std::string legend() const {
    if (curves_.size() < 2) return {};
    size_t longest = 0;
    for (const PlotSeries& curve : curves_) longest = std::max(longest, curve.name.size());
    const double width = 48 + 8.2 * double(longest), height = 10 + 21.0 * double(curves_.size());
    // The corner whose legend covers the fewest points; top right if several do.
    double x = 0, y = 0;
    int fewest = std::numeric_limits<int>::max();
    for (const double upper : {top_ + 8, bottom_ - height - 8})
      for (const double left : {right_ - width - 10, left_ + 10}) {
        const int points = points_in(left, upper, left + width, upper + height);
        if (points < fewest) fewest = points, x = left, y = upper;
      }
    std::string svg = absl::StrFormat(
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"4\" fill=\"#ffffff\" "
        "fill-opacity=\"0.85\" stroke=\"#cccccc\"/>\n",
        x, y, width, height);
    for (size_t c = 0; c < curves_.size(); ++c) {
      y += 21;
      svg += svg_line(x + 10, y - 6, x + 34, y - 6, colour(c), 2.6);
      svg += svg_text(x + 42, y - 1, curves_[c].name, 13, TextAnchor::kStart);
    }
    return svg;
  }

  /// Counts points of the curves in a rectangle, eight for each line between two values.
  int points_in(double left, double top, double right, double bottom) const {
    int count = 0;
    for (const PlotSeries& curve : curves_)
      for (size_t i = 1; i < curve.x.size(); ++i) {
        if (!is_point(curve, i - 1) || !is_point(curve, i)) continue;
        const double x = across(place(curve.x[i - 1])), y = down(height(curve.y[i - 1]));
        const double dx = across(place(curve.x[i])) - x, dy = down(height(curve.y[i])) - y;
        for (int part = 1; part <= 8; ++part) {
          const double px = x + dx * part / 8, py = y + dy * part / 8;
          count += px >= left && px <= right && py >= top && py <= bottom;
        }
      }
    return count;
  }

  static const char* colour(size_t curve) { return kColours[curve % kColours.size()]; }

  std::span<const PlotSeries> curves_;
  const ChartOptions& options_;
  Range x_, y_;  // in plot coordinates, logarithmic if requested
  double left_, right_, top_, bottom_;
};

}  // namespace

std::string line_chart(std::span<const PlotSeries> curves, const ChartOptions& options) {
  if (options.width < 200 || options.height < 150)
    fail<ArgumentError>("line_chart: too small: ", options.width, " x ", options.height);
  return Chart(curves, options).draw();
}

void save_line_chart(const std::string& path, std::span<const PlotSeries> curves,
                     const ChartOptions& options) {
  write_file(path, line_chart(curves, options));
}

void save_line_chart(const std::string& path, std::initializer_list<PlotSeries> curves,
                     const ChartOptions& options) {
  save_line_chart(path, std::span(curves.begin(), curves.size()), options);
}

}  // namespace tapegrad
