// Helpers shared by the plots. Not part of the public interface.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tapegrad {

std::string svg_begin(int width, int height);

enum class TextAnchor { kStart, kMiddle, kEnd };
std::string svg_text(double x, double y, std::string_view text, int size, TextAnchor anchor,
                     std::string_view more = "");
std::string svg_line(double x1, double y1, double x2, double y2, std::string_view stroke,
                     double width = 1);

/// Returns about `count` round numbers inside [low, high], at distances of 1, 2 or 5 times a power
/// of ten.
std::vector<double> nice_ticks(double low, double high, int count);
std::string tick_text(double value);

/// Returns a colour of the viridis map, from "#440154" at 0 to "#fde725" at 1.
std::string viridis(double t);

}  // namespace tapegrad
