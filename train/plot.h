// SVG plots: curves, and surfaces in a parallel 3-D projection.
//
//   save_line_chart("error.svg", {{"train", epochs, train_error}, {"test", epochs, test_error}},
//                   {.title = "Error rate", .x_label = "epoch"});
//   save_surfaces("peaks.svg", {{"data", x, y, z},
//                              {"network", x, y, out, SurfaceStyle::kWireframe}});
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/tape/variable.h"

namespace tapegrad {

struct PlotSeries {
  std::string name;
  std::vector<double> x, y;  // of equal length; a y that is not finite is a gap
};

struct ChartOptions {
  std::string title = {}, x_label = {}, y_label = {};
  int width = 720, height = 450;  // pixels
  bool log_x = false;             // a point with x <= 0 is a gap
  bool log_y = false;             // a point with y <= 0 is a gap
};

/// Draws curves with axes, ticks, a grid and, for several curves, a legend. Throws ShapeError if x
/// and y of a series differ in length.
std::string line_chart(std::span<const PlotSeries> curves, const ChartOptions& options = {});
void save_line_chart(const std::string& path, std::span<const PlotSeries> curves,
                     const ChartOptions& options = {});

enum class SurfaceStyle { kSurface, kWireframe };

struct Surface {
  std::string title;
  Variable x, y, z;  // x [m] and y [n], ascending; heights z [n, m]
  SurfaceStyle style = SurfaceStyle::kSurface;
};

struct SurfaceOptions {
  int width = 1000, height = 400;  // pixels, all panels together
  double azimuth = -60.0;          // degrees of the viewer's position around the z axis
  double elevation = 30.0;         // degrees above the floor
};

/// Draws surfaces side by side, from back to front, coloured by height (viridis) on a common scale.
/// Throws ShapeError if x, y and z do not fit or a surface has fewer than 2 x 2 points;
/// ArgumentError for heights that are not finite.
std::string surface_plot(std::span<const Surface> panels, const SurfaceOptions& options = {});
void save_surfaces(const std::string& path, std::span<const Surface> panels,
                   const SurfaceOptions& options = {});

void save_line_chart(const std::string& path, std::initializer_list<PlotSeries> curves,
                     const ChartOptions& options = {});
void save_surfaces(const std::string& path, std::initializer_list<Surface> panels,
                   const SurfaceOptions& options = {});

}  // namespace tapegrad
