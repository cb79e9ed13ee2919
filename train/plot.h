// Plots as SVG files: curves, and surfaces seen in perspective-free 3-D.
//
//   save_line_chart("error.svg", {{"train", epochs, train_error}, {"test", epochs, test_error}},
//                   {.title = "Error rate", .x_label = "epoch"});
//   save_surfaces("peaks.svg", {{"data", x, y, z}, {"network", x, y, out,
//   SurfaceStyle::kWireframe}});
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/tape/variable.h"

namespace tapegrad {

struct Series {
  std::string name;
  std::vector<double> x, y;  // of one length; a y that is not finite is a gap
};

struct ChartOptions {
  std::string title = {}, x_label = {}, y_label = {};
  int width = 720, height = 450;  // pixels
  bool log_x = false;             // a point at zero or less is a gap
  bool log_y = false;             // likewise
};

/// The curves with axes, ticks, a grid and, for several, a legend. ShapeError when a series' x and
/// y differ in length.
std::string line_chart(std::span<const Series> curves, const ChartOptions& options = {});
void save_line_chart(const std::string& path, std::span<const Series> curves,
                     const ChartOptions& options = {});

enum class SurfaceStyle { kSurface, kWireframe };

struct Surface {
  std::string title;
  Variable x, y, z;  // [m], [n] ascending, and the heights [n, m]
  SurfaceStyle style = SurfaceStyle::kSurface;
};

struct SurfaceOptions {
  int width = 1000, height = 400;  // pixels, of all panels together
  double azimuth = -60.0;          // degrees: where the viewer stands around the z axis
  double elevation = 30.0;         // degrees above the floor
};

/// The surfaces side by side, coloured by height (viridis) on one scale. Drawn from back to front.
/// ShapeError when x, y and z do not fit or a surface has fewer than 2 x 2 points; ArgumentError
/// for heights that are not finite.
std::string surface_plot(std::span<const Surface> panels, const SurfaceOptions& options = {});
void save_surfaces(const std::string& path, std::span<const Surface> panels,
                   const SurfaceOptions& options = {});

inline void save_line_chart(const std::string& path, std::initializer_list<Series> curves,
                            const ChartOptions& options = {}) {
  save_line_chart(path, std::span(curves.begin(), curves.size()), options);
}
inline void save_surfaces(const std::string& path, std::initializer_list<Surface> panels,
                          const SurfaceOptions& options = {}) {
  save_surfaces(path, std::span(panels.begin(), panels.size()), options);
}

}  // namespace tapegrad
