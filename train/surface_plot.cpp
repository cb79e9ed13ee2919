#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "absl/strings/str_format.h"

#include "core/base/error.h"
#include "io/atomic_file.h"
#include "train/internal/svg.h"
#include "train/plot.h"

namespace tapegrad {
namespace {

struct SpacePoint {
  double x, y, z;
};

struct Grid {
  std::vector<double> x, y, z;

  explicit Grid(const Surface& surface) {
    const auto& [title, xs, ys, zs, style] = surface;
    if (xs.rank() != 1 || ys.rank() != 1 || zs.rank() != 2 || zs.size(0) != ys.size(0) ||
        zs.size(1) != xs.size(0) || xs.size(0) < 2 || ys.size(0) < 2)
      fail<ShapeError>("surface_plot: '", title,
                       "': x [m], y [n] and z [n, m] expected, of 2 or more: ", xs.shape(), ", ",
                       ys.shape(), ", ", zs.shape());
    x = xs.to_vector<double>();
    y = ys.to_vector<double>();
    z = zs.to_vector<double>();
    for (double height : z)
      if (!std::isfinite(height))
        fail<ArgumentError>("surface_plot: '", title, "': a height is not finite");
    for (const auto* axis : {&x, &y})
      for (size_t i = 0; i < axis->size(); ++i)
        if (!std::isfinite((*axis)[i]) || (i > 0 && (*axis)[i] <= (*axis)[i - 1]))
          fail<ArgumentError>("surface_plot: '", title, "': x and y must ascend");
  }
};

/// Parallel projection of the box [-1, 1]^3, with a reduced height, onto a rectangle of the page.
class Camera {
 public:
  Camera(double azimuth, double elevation) {
    const double a = azimuth * std::numbers::pi / 180, e = elevation * std::numbers::pi / 180;
    right_ = {-std::sin(a), std::cos(a), 0};
    up_ = {-std::cos(a) * std::sin(e), -std::sin(a) * std::sin(e), std::cos(e)};
    near_ = {std::cos(a) * std::cos(e), std::sin(a) * std::cos(e), std::sin(e)};
  }
  /// Scales the box to the largest size that fits.
  void fit(double left, double top, double width, double height) {
    double x_low = 1e9, x_high = -1e9, y_low = 1e9, y_high = -1e9;
    for (double x : {-1.0, 1.0})
      for (double y : {-1.0, 1.0})
        for (double z : {-1.0, 1.0}) {
          const double across = dot(right_, {x, y, z}), high = dot(up_, {x, y, z});
          x_low = std::min(x_low, across), x_high = std::max(x_high, across);
          y_low = std::min(y_low, high), y_high = std::max(y_high, high);
        }
    scale_ = std::min(width / (x_high - x_low), height / (y_high - y_low));
    x_ = left + width / 2 - scale_ * (x_low + x_high) / 2;
    y_ = top + height / 2 + scale_ * (y_low + y_high) / 2;
  }
  double across(SpacePoint p) const { return x_ + scale_ * dot(right_, p); }
  double down(SpacePoint p) const { return y_ - scale_ * dot(up_, p); }
  double nearness(SpacePoint p) const { return dot(near_, p); }
  /// Returns the side of the box, -1 or 1, that faces away from the viewer.
  double far_x() const { return near_.x > 0 ? -1 : 1; }
  double far_y() const { return near_.y > 0 ? -1 : 1; }

 private:
  static constexpr double kFlat = 0.9;  // height of the box relative to its width
  static double dot(SpacePoint a, SpacePoint b) {
    return a.x * b.x + a.y * b.y + a.z * b.z * kFlat;
  }

  SpacePoint right_{}, up_{}, near_{};
  double scale_ = 1, x_ = 0, y_ = 0;
};

class Panel {
 public:
  Panel(const Surface& surface, const Grid& grid, double z_low, double z_high, const Camera& camera)
      : style_(surface.style), grid_(grid), z_low_(z_low), z_high_(z_high), camera_(camera) {}

  std::string draw() const { return walls() + labels() + patches(); }

 private:
  static double unit(double value, double low, double high) {
    return 2 * (value - low) / (high - low) - 1;
  }
  double ux(double x) const { return unit(x, grid_.x.front(), grid_.x.back()); }
  double uy(double y) const { return unit(y, grid_.y.front(), grid_.y.back()); }
  double uz(double z) const { return unit(z, z_low_, z_high_); }

  std::string polygon(std::span<const SpacePoint> points, std::string_view style) const {
    std::string svg = "<polygon points=\"";
    for (const SpacePoint& p : points)
      svg += absl::StrFormat("%.1f,%.1f ", camera_.across(p), camera_.down(p));
    svg.back() = '"';
    return svg + " " + std::string(style) + "/>\n";
  }
  std::string line(SpacePoint a, SpacePoint b, std::string_view stroke, double width = 0.7) const {
    return svg_line(camera_.across(a), camera_.down(a), camera_.across(b), camera_.down(b), stroke,
                    width);
  }

  /// Returns the floor and the two rear walls, with a grid at the ticks.
  std::string walls() const {
    const double fx = camera_.far_x(), fy = camera_.far_y();
    constexpr const char* kWall = "fill=\"#f4f4f6\" stroke=\"#c4c4c8\" stroke-width=\"0.7\"";
    constexpr const char* kGrid = "#dcdce0";
    std::string svg = polygon(std::array{SpacePoint{-1, -1, -1}, SpacePoint{1, -1, -1},
                                         SpacePoint{1, 1, -1}, SpacePoint{-1, 1, -1}},
                              kWall) +
                      polygon(std::array{SpacePoint{fx, -1, -1}, SpacePoint{fx, 1, -1},
                                         SpacePoint{fx, 1, 1}, SpacePoint{fx, -1, 1}},
                              kWall) +
                      polygon(std::array{SpacePoint{-1, fy, -1}, SpacePoint{1, fy, -1},
                                         SpacePoint{1, fy, 1}, SpacePoint{-1, fy, 1}},
                              kWall);
    for (double tick : x_ticks()) {
      svg += line({ux(tick), -1, -1}, {ux(tick), 1, -1}, kGrid);
      svg += line({ux(tick), fy, -1}, {ux(tick), fy, 1}, kGrid);
    }
    for (double tick : y_ticks()) {
      svg += line({-1, uy(tick), -1}, {1, uy(tick), -1}, kGrid);
      svg += line({fx, uy(tick), -1}, {fx, uy(tick), 1}, kGrid);
    }
    for (double tick : z_ticks()) {
      svg += line({fx, -1, uz(tick)}, {fx, 1, uz(tick)}, kGrid);
      svg += line({-1, fy, uz(tick)}, {1, fy, uz(tick)}, kGrid);
    }
    return svg;
  }

  /// Numbers along the near edges of the floor and along the left vertical edge.
  std::string labels() const {
    const double nx = -camera_.far_x(), ny = -camera_.far_y();
    std::string svg;
    auto label = [&](SpacePoint at, SpacePoint outside, double value) {
      const double x = camera_.across(outside), y = camera_.down(outside);
      svg += svg_line(camera_.across(at), camera_.down(at), x, y, "#888888", 0.7);
      const double dx = x - camera_.across(at), dy = y - camera_.down(at);
      const double length = std::max(1e-9, std::hypot(dx, dy));
      svg += svg_text(x + 8 * dx / length, y + 8 * dy / length + 4, tick_text(value), 10,
                      std::abs(dx) < 0.4 * length ? TextAnchor::kMiddle
                      : dx < 0                    ? TextAnchor::kEnd
                                                  : TextAnchor::kStart);
    };
    for (double tick : x_ticks()) label({ux(tick), ny, -1}, {ux(tick), 1.06 * ny, -1}, tick);
    for (double tick : y_ticks()) label({nx, uy(tick), -1}, {1.06 * nx, uy(tick), -1}, tick);
    const SpacePoint a{nx, -ny, 0}, b{-nx, ny, 0};
    const SpacePoint edge = camera_.across(a) < camera_.across(b) ? a : b;
    for (double tick : z_ticks())
      label({edge.x, edge.y, uz(tick)},
            {edge.x * (edge.x == nx ? 1.06 : 1), edge.y * (edge.y == ny ? 1.06 : 1), uz(tick)},
            tick);
    return svg;
  }

  /// Painter's algorithm: draws cells from back to front, so that near cells hide far ones.
  std::string patches() const {
    struct Patch {
      std::array<SpacePoint, 4> corners;
      double nearness, height;
    };
    const size_t columns = grid_.x.size(), rows = grid_.y.size();
    auto corner = [&](size_t i, size_t j) {
      return SpacePoint{ux(grid_.x[j]), uy(grid_.y[i]), uz(grid_.z[i * columns + j])};
    };
    std::vector<Patch> patches;
    for (size_t i = 0; i + 1 < rows; ++i)
      for (size_t j = 0; j + 1 < columns; ++j) {
        Patch patch{{corner(i, j), corner(i, j + 1), corner(i + 1, j + 1), corner(i + 1, j)}, 0, 0};
        for (const SpacePoint& p : patch.corners) {
          // The position on the floor alone decides the drawing order of cells.
          patch.nearness += camera_.nearness({p.x, p.y, 0});
          patch.height += (p.z + 1) / 8;
        }
        patches.push_back(patch);
      }
    std::stable_sort(patches.begin(), patches.end(),
                     [](const Patch& a, const Patch& b) { return a.nearness < b.nearness; });
    std::string svg = "<g stroke-linejoin=\"round\">\n";
    for (const Patch& patch : patches) {
      const std::string colour = viridis(patch.height);
      svg += polygon(patch.corners,
                     style_ == SurfaceStyle::kSurface
                         ? "fill=\"" + colour + "\" stroke=\"" + colour + "\" stroke-width=\"0.6\""
                         : "fill=\"#ffffff\" fill-opacity=\"0.8\" stroke=\"" + colour +
                               "\" stroke-width=\"0.9\"");
    }
    return svg + "</g>\n";
  }

  std::vector<double> x_ticks() const { return nice_ticks(grid_.x.front(), grid_.x.back(), 4); }
  std::vector<double> y_ticks() const { return nice_ticks(grid_.y.front(), grid_.y.back(), 4); }
  std::vector<double> z_ticks() const { return nice_ticks(z_low_, z_high_, 4); }

  SurfaceStyle style_;
  const Grid& grid_;
  double z_low_, z_high_;
  const Camera& camera_;
};

}  // namespace

std::string surface_plot(std::span<const Surface> panels, const SurfaceOptions& options) {
  if (panels.empty()) fail<ArgumentError>("surface_plot: no surfaces");
  if (options.width < 150 * int(panels.size()) || options.height < 150)
    fail<ArgumentError>("surface_plot: too small for ", panels.size(), " panels: ", options.width,
                        " x ", options.height);
  std::vector<Grid> grids;
  double z_low = std::numeric_limits<double>::infinity(), z_high = -z_low;
  for (const Surface& panel : panels) {
    grids.emplace_back(panel);
    const auto [low, high] = std::minmax_element(grids.back().z.begin(), grids.back().z.end());
    z_low = std::min(z_low, *low);
    z_high = std::max(z_high, *high);
  }
  if (z_low == z_high) z_low -= 0.5, z_high += 0.5;

  std::string svg = svg_begin(options.width, options.height);
  const double width = double(options.width) / double(panels.size());
  for (size_t i = 0; i < panels.size(); ++i) {
    const double left = width * double(i);
    Camera camera(options.azimuth, options.elevation);
    camera.fit(left + 34, 40, width - 56, options.height - 76);
    svg += svg_text(left + width / 2, 26, panels[i].title, 15, TextAnchor::kMiddle,
                    "fill=\"#111111\" font-weight=\"bold\"");
    svg += Panel(panels[i], grids[i], z_low, z_high, camera).draw();
  }
  return svg + "</svg>\n";
}

void save_surfaces(const std::string& path, std::span<const Surface> panels,
                   const SurfaceOptions& options) {
  write_file(path, surface_plot(panels, options));
}

void save_surfaces(const std::string& path, std::initializer_list<Surface> panels,
                   const SurfaceOptions& options) {
  save_surfaces(path, std::span(panels.begin(), panels.size()), options);
}

}  // namespace tapegrad
