#include "train/plot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "ops/create.h"
#include "tests/temp_dir.h"
#include "train/internal/svg.h"

namespace tapegrad {
namespace {

template <typename T>
std::span<const T> only(const T& one) {
  return {&one, 1};
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

TEST(Plot, TicksAreRound) {
  EXPECT_EQ(nice_ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(nice_ticks(-3, 3, 6), (std::vector<double>{-3, -2, -1, 0, 1, 2, 3}));
  const auto small = nice_ticks(0.013, 0.0525, 4);
  ASSERT_EQ(small.size(), 4u);
  EXPECT_NEAR(small[0], 0.02, 1e-12);
  EXPECT_TRUE(nice_ticks(1, 1, 5).empty());
  EXPECT_TRUE(nice_ticks(0, INFINITY, 5).empty());
  for (double scale : {1e-30, 1e-3, 7.0, 1e20})
    for (int wanted : {3, 5, 8}) {
      const auto ticks = nice_ticks(-scale, 2.3 * scale, wanted);
      EXPECT_GE(int(ticks.size()), 2) << scale;
      EXPECT_LE(int(ticks.size()), wanted + 2) << scale;
    }
}

TEST(Plot, ViridisRunsFromDarkToYellow) {
  EXPECT_EQ(viridis(0), "#440154");
  EXPECT_EQ(viridis(1), "#fde725");
  EXPECT_EQ(viridis(0.5), "#21918c");
  EXPECT_EQ(viridis(-3), viridis(0));
  EXPECT_EQ(viridis(NAN), viridis(0));
}

TEST(Plot, LineChartHasCurvesAxesAndLegend) {
  const std::vector<double> x{1, 2, 3, 4};
  const std::vector<PlotSeries> curves{{"train <a>", x, {0.4, 0.2, 0.1, 0.05}},
                                       {"test", x, {0.5, NAN, 0.2, 0.15}}};
  const std::string svg =
      line_chart(curves, {.title = "Error & loss", .x_label = "epoch", .y_label = "error rate"});
  EXPECT_EQ(svg.rfind("<svg ", 0), 0u);
  EXPECT_EQ(svg.substr(svg.size() - 7), "</svg>\n");
  EXPECT_EQ(count(svg, "<path "), 2u);
  EXPECT_EQ(count(svg, "<circle "), 7u) << "a NaN is a gap";
  EXPECT_NE(svg.find("train &lt;a&gt;"), std::string::npos);
  EXPECT_NE(svg.find("Error &amp; loss"), std::string::npos);
  EXPECT_NE(svg.find(">epoch<"), std::string::npos);
  EXPECT_NE(svg.find("rotate(-90"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  const std::string one = line_chart(only(curves[0]));
  EXPECT_EQ(one.find(">train"), std::string::npos) << "one curve needs no legend";
}

TEST(Plot, LegendCoversNoCurveIfACornerIsFree) {
  const std::vector<double> x{1, 2, 3, 4, 5, 6};
  using Corner = std::pair<std::string, std::string>;
  // Returns the corner of the legend in a chart of 720 x 440 for two curves through y.
  const auto corner = [&](const std::vector<double>& y) {
    const std::vector<PlotSeries> curves{{"accuracy", x, y}, {"val_accuracy", x, y}};
    const std::string svg = line_chart(curves, {.width = 720, .height = 440});
    double left = 0, top = 0;
    const size_t legend = svg.find("rx=\"4\"");
    const size_t begin = svg.rfind("<rect", legend);
    EXPECT_EQ(std::sscanf(svg.c_str() + begin, "<rect x=\"%lf\" y=\"%lf\"", &left, &top), 2);
    return Corner(left > 360 ? "right" : "left", top > 220 ? "bottom" : "top");
  };
  EXPECT_EQ(corner({9, 5, 3, 2, 1.5, 1}), Corner("right", "top"));
  EXPECT_EQ(corner({1, 8, 8.5, 9, 9, 9}), Corner("right", "bottom"));
  EXPECT_EQ(corner({1, 1, 1, 2, 8, 9}), Corner("left", "top"));
  EXPECT_EQ(corner({9, 9, 9, 9, 9, 1}), Corner("left", "bottom"));
}

TEST(Plot, LineChartTakesWhatDataGives) {
  for (const PlotSeries& odd :
       {PlotSeries{"none", {}, {}}, PlotSeries{"one", {3}, {5}}, PlotSeries{"flat", {1, 2}, {7, 7}},
        PlotSeries{"nan", {1, 2}, {NAN, NAN}}, PlotSeries{"negative", {-1, 1}, {-5, -4}},
        PlotSeries{"zero", {0}, {0}}})
    for (bool log : {false, true}) {
      const std::string svg = line_chart(only(odd), {.log_x = log, .log_y = log});
      EXPECT_EQ(svg.find("nan"), std::string::npos) << odd.name;
      EXPECT_EQ(svg.find("inf"), std::string::npos) << odd.name;
    }
  const PlotSeries uneven{"uneven", {1, 2}, {1}};
  EXPECT_THROW(line_chart(only(uneven)), ShapeError);
}

TEST(Plot, OnALogarithmicAxisEqualRatiosAreEquallyFarApart) {
  const PlotSeries rows{"rows", {0, 1, 10, 100}, {1, 1, 2, 3}};
  const std::string svg = line_chart(only(rows), {.log_x = true});
  std::vector<double> places;
  for (size_t at = svg.find("cx=\""); at != svg.npos; at = svg.find("cx=\"", at + 1))
    places.push_back(std::stod(svg.substr(at + 4)));
  ASSERT_EQ(places.size(), 3u) << "zero is a gap";
  EXPECT_NEAR(places[2] - places[1], places[1] - places[0], 0.11);
  EXPECT_NE(svg.find(">100<"), std::string::npos);
}

std::vector<Surface> peaks() {
  const int n = 40;
  std::vector<double> axis, z;
  for (int i = 0; i < n; ++i) axis.push_back(-3 + 6.0 * i / (n - 1));
  for (double y : axis)
    for (double x : axis)
      z.push_back(3 * std::pow(1 - x, 2) * std::exp(-x * x - (y + 1) * (y + 1)) -
                  10 * (x / 5 - x * x * x - std::pow(y, 5)) * std::exp(-x * x - y * y) -
                  std::exp(-(x + 1) * (x + 1) - y * y) / 3);
  const Variable ticks = tensor(axis), heights = tensor(z, {n, n});
  return {{"data", ticks, ticks, heights},
          {"network", ticks, ticks, heights, SurfaceStyle::kWireframe},
          {"again", ticks, ticks, heights, SurfaceStyle::kWireframe}};
}

TEST(Plot, S516_ThreePanels) {
  const testing::TempDir dir;
  save_surfaces(dir / "peaks.svg", peaks());
  const std::string svg = testing::contents(dir / "peaks.svg");
  EXPECT_NE(svg.find("width=\"1000\" height=\"400\""), std::string::npos);
  EXPECT_EQ(count(svg, "<polygon "), 3u * (39 * 39 + 3));
  std::set<std::string> colours;
  for (size_t at = svg.find("fill=\"#"); at != svg.npos; at = svg.find("fill=\"#", at + 1))
    colours.insert(svg.substr(at + 6, 7));
  EXPECT_GT(colours.size(), 50u) << "cells are coloured by height";
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  if (const char* keep = std::getenv("TAPEGRAD_KEEP_PLOTS"))
    std::filesystem::copy_file(dir / "peaks.svg", std::filesystem::path(keep) / "peaks.svg",
                               std::filesystem::copy_options::overwrite_existing);
}

TEST(Plot, SurfacesCheckTheirShapes) {
  const Variable x = tensor({0.0, 1.0, 2.0}), y = tensor({0.0, 1.0});
  const Surface good{"a", x, y, zeros({2, 3})};
  EXPECT_NO_THROW(surface_plot(only(good)));
  const Surface turned{"a", x, y, zeros({3, 2})};
  EXPECT_THROW(surface_plot(only(turned)), ShapeError);
  const Surface thin{"a", tensor({1.0}), y, zeros({2, 1})};
  EXPECT_THROW(surface_plot(only(thin)), ShapeError);
  const Surface broken{"a", x, y, full({2, 3}, NAN)};
  EXPECT_THROW(surface_plot(only(broken)), ArgumentError);
  const Surface backwards{"a", tensor({2.0, 1.0, 0.0}), y, zeros({2, 3})};
  EXPECT_THROW(surface_plot(only(backwards)), ArgumentError);
  EXPECT_THROW(surface_plot({}), ArgumentError);
}

}  // namespace
}  // namespace tapegrad
