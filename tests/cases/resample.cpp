#include <algorithm>
#include <array>
#include <cmath>

#include "tests/cases/drawn_cases.h"
#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

using Index = std::vector<int64_t>;

/// Weight of a pixel at distance d.
double linear(double d) { return std::max(0.0, 1 - std::abs(d)); }
double cubic(double d) {
  d = std::abs(d);
  if (d <= 1) return 1.25 * d * d * d - 2.25 * d * d + 1;
  if (d < 2) return -0.75 * (d * d * d - 5 * d * d + 8 * d - 4);
  return 0;
}

struct Resize {
  std::string mode;
  bool align = false;
  Index size = {};
  double factor = 0;  // used if size is not given
  bool recompute = false;

  int64_t result(const Shape& x, int dim) const {
    if (factor > 0) return int64_t(double(x[dim]) * factor);
    return size.size() == 1 ? size[0] : size[size_t(dim - 2)];
  }

  /// Weights of all n pixels of a row for result i of m.
  std::vector<double> weights(int64_t i, int64_t n, int64_t m) const {
    const double ratio = factor > 0 && !recompute ? 1 / factor : double(n) / double(m);
    std::vector<double> w(n);
    if (mode == "nearest" || mode == "nearest-exact") {
      const double at = (double(i) + (mode == "nearest" ? 0 : 0.5)) * ratio;
      w[size_t(std::min(int64_t(at), n - 1))] = 1;
      return w;
    }
    double at = (double(i) + 0.5) * ratio - 0.5;
    if (align) at = m > 1 ? double(i * (n - 1)) / double(m - 1) : 0;
    if (mode != "bicubic") at = std::clamp(at, 0.0, double(n - 1));
    // Pixels outside the image take the value of the border.
    for (int64_t p = -3; p < n + 3; ++p)
      w[size_t(std::clamp<int64_t>(p, 0, n - 1))] +=
          mode == "bicubic" ? cubic(at - double(p)) : linear(at - double(p));
    return w;
  }

  Array operator()(const Array& x) const {
    Array y{x.shape, {}};
    for (int d = 2; d < x.shape.rank(); ++d) y.shape[d] = result(x.shape, d);
    for_each_index(y.shape, [&](int64_t, const Index& to) {
      double sum = 0;
      for_each_index(x.shape, [&](int64_t flat, const Index& from) {
        if (from[0] != to[0] || from[1] != to[1]) return;
        double weight = 1;
        for (int d = 2; d < x.shape.rank(); ++d)
          weight *= weights(to[d], x.shape[d], y.shape[d])[size_t(from[d])];
        sum += weight * x.values[flat];
      });
      y.values.push_back(sum);
    });
    return y;
  }
};

struct Grid {
  std::string mode, padding;
  bool align;

  double pixel(double g, int64_t n) const {
    return align ? (g + 1) / 2 * double(n - 1) : ((g + 1) * double(n) - 1) / 2;
  }
  /// Maps a coordinate into the image: reflects it until it is inside, then clamps it to the
  /// outermost pixel centres.
  double inside(double p, int64_t n) const {
    if (padding == "zeros") return p;
    const double low = align ? 0 : -0.5, high = align ? double(n - 1) : double(n) - 0.5;
    while (padding == "reflection" && low < high && (p < low || p > high))
      p = p < low ? 2 * low - p : 2 * high - p;
    return std::clamp(p, 0.0, double(n - 1));
  }
  /// Weights of the n pixels of a row for the coordinate g.
  std::vector<double> weights(double g, int64_t n) const {
    std::vector<double> w(n);
    const auto add = [&](double p, double weight) {
      if (p >= 0 && p < double(n)) w[size_t(p)] += weight;
    };
    const double p = pixel(g, n);
    if (mode == "nearest") {
      add(std::nearbyint(inside(p, n)), 1);
    } else if (mode == "bilinear") {
      const double at = inside(p, n), first = std::floor(at);
      add(first, linear(at - first)), add(first + 1, linear(at - first - 1));
    } else {
      for (double q = std::floor(p) - 1; q < std::floor(p) + 3; ++q)
        add(inside(q, n), cubic(p - q));
    }
    return w;
  }

  Array volume(const std::vector<Array>& in) const {
    const Shape &x = in[0].shape, &g = in[1].shape;
    Array y{{x[0], x[1], g[1], g[2], g[3]}, {}};
    for_each_index(y.shape, [&](int64_t, const Index& to) {
      const int64_t place = flat_index(g, {to[0], to[2], to[3], to[4], 0});
      std::array<std::vector<double>, 3> w;
      for (int64_t d = 0; d < 3; ++d) w[size_t(d)] = weights(in[1].values[place + 2 - d], x[2 + d]);
      double sum = 0;
      for_each_index({x[2], x[3], x[4]}, [&](int64_t, const Index& at) {
        sum += w[0][at[0]] * w[1][at[1]] * w[2][at[2]] *
               in[0].values[flat_index(x, {to[0], to[1], at[0], at[1], at[2]})];
      });
      y.values.push_back(sum);
    });
    return y;
  }

  Array operator()(const std::vector<Array>& in) const {
    const Shape &x = in[0].shape, &g = in[1].shape;
    if (x.rank() == 5) return volume(in);
    Array y{{x[0], x[1], g[1], g[2]}, {}};
    for_each_index(y.shape, [&](int64_t, const Index& to) {
      const int64_t place = ((to[0] * g[1] + to[2]) * g[2] + to[3]) * 2;
      const auto across = weights(in[1].values[place], x[3]);
      const auto down = weights(in[1].values[place + 1], x[2]);
      double sum = 0;
      for (int64_t i = 0; i < x[2]; ++i)
        for (int64_t j = 0; j < x[3]; ++j)
          sum += down[i] * across[j] * in[0].values[flat_index(x, {to[0], to[1], i, j})];
      y.values.push_back(sum);
    });
    return y;
  }
};

Reference affine(const Index& size, bool align) {
  return [=](const std::vector<Array>& in) {
    const int dims = int(size.size()) - 2;
    Array y{{size[0]}, {}};
    for (int d = 0; d < dims; ++d) y.shape.push_back(size[2 + d]);
    y.shape.push_back(dims);
    for_each_index(y.shape, [&](int64_t, const Index& at) {
      const auto theta = [&](int j) {
        return in[0].values[(at[0] * dims + at.back()) * (dims + 1) + j];
      };
      double sum = theta(dims);
      for (int j = 0; j < dims; ++j) {  // x is the last dimension
        const int64_t n = size[size_t(1 + dims - j)], i = at[size_t(dims - j)];
        const double centre = align ? (n > 1 ? 2.0 * double(i) / double(n - 1) - 1 : 0)
                                    : (2.0 * double(i) + 1) / double(n) - 1;
        sum += theta(j) * centre;
      }
      y.values.push_back(sum);
    });
    return y;
  };
}

OpCase resizing(Shape shape, const Resize& r) {
  Attributes with{{"mode", r.mode}, {"align_corners", r.align}};
  if (r.factor > 0) with.emplace("scale_factor", r.factor);
  if (!r.size.empty()) with.emplace("size", r.size);
  if (r.recompute) with.emplace("recompute_scale_factor", true);
  return {.op = "interpolate",
          .inputs = {Input{shape}},
          .attributes = with,
          .reference = [=](const std::vector<Array>& in) { return r(in[0]); },
          .tolerance = 16};
}

OpCase theta_case(const Index& size, bool align) {
  const int64_t dims = int64_t(size.size()) - 2;
  return {.op = "affine_grid",
          .inputs = {Input{{size[0], dims, dims + 1}}},
          .attributes = {{"size", size}, {"align_corners", align}},
          .reference = affine(size, align),
          .tolerance = 16};
}

OpCase sampling(Shape shape, Shape grid, const Grid& how) {
  return {.op = "grid_sample",
          .inputs = {Input{shape}, Input{grid}},
          .attributes = {{"mode", how.mode},
                         {"padding_mode", how.padding},
                         {"align_corners", how.align}},
          .reference = how,
          .tolerance = 64,
          .dtypes = {f64, f32}};
}

}  // namespace

void draw_sample(OpCases& cases, Choices& choices) {
  const int dims = int(choices.between(1, 3));
  const bool align = choices.flag();
  const int64_t most = dims == 1 ? 12 : dims == 2 ? 6 : 3;
  const int64_t batch = choices.between(1, 2), channels = choices.between(1, 3);
  Shape shape{batch, channels}, grid{batch};
  Index size;
  for (int i = 0; i < dims; ++i) {
    shape.push_back(choices.between(1, most));
    size.push_back(choices.between(1, most));
    grid.push_back(size.back());
  }
  grid.push_back(dims);
  const size_t kind = dims == 1 ? 0 : choices.below(3);
  if (kind == 0) {
    std::string mode = dims == 1 ? "linear" : dims == 2 ? "bilinear" : "trilinear";
    if (dims == 2 && choices.flag()) mode = "bicubic";
    cases.push_back(resizing(shape, {mode, align, size}));
  } else if (kind == 1) {
    Index of{batch, channels};
    of.insert(of.end(), size.begin(), size.end());
    cases.push_back(theta_case(of, align));
  } else {
    const std::string mode = dims == 2 && choices.flag() ? "bicubic" : "bilinear";
    cases.push_back(
        sampling(shape, grid, {mode, choices.of({"zeros", "border", "reflection"}), align}));
    cases.back().inputs[1]->grad = false;  // no derivative at pixel centres
  }
}

void resample_cases(OpCases& cases) {
  const auto resize = [&](Shape shape, const Resize& r) { cases.push_back(resizing(shape, r)); };
  for (const std::string mode : {"nearest", "nearest-exact"}) {
    resize({2, 2, 5}, {mode, false, {7}});
    resize({1, 2, 4, 3}, {mode, false, {3, 6}});
    resize({1, 2, 3, 3}, {mode, false, {}, 2.0});
    resize({1, 1, 2, 3, 2}, {mode, false, {4}});
  }
  for (const bool align : {false, true}) {
    resize({2, 2, 5}, {"linear", align, {8}});
    resize({2, 2, 5}, {"linear", align, {3}});
    resize({1, 2, 3, 4}, {"bilinear", align, {5, 2}});
    resize({1, 2, 3, 4}, {"bilinear", align, {1, 7}});
    resize({1, 2, 3, 4}, {"bilinear", align, {}, 1.7});
    resize({1, 2, 3, 4}, {"bicubic", align, {6, 3}});
    resize({1, 2, 3, 4}, {"bicubic", align, {}, 1.7, true});
    resize({1, 2, 2, 3, 2}, {"trilinear", align, {3, 2, 4}});
  }
  for (const bool align : {false, true}) {
    for (const Index& size : {Index{2, 3, 3, 4}, {1, 1, 1, 3}, {2, 1, 2, 3, 2}})
      cases.push_back(theta_case(size, align));
    for (const std::string mode : {"bilinear", "nearest", "bicubic"})
      for (const std::string padding : {"zeros", "border", "reflection"})
        cases.push_back(sampling({2, 2, 4, 3}, {2, 2, 3, 2}, {mode, padding, align}));
    for (const std::string mode : {"bilinear", "nearest"})
      for (const std::string padding : {"zeros", "border", "reflection"})
        cases.push_back(sampling({1, 2, 2, 3, 2}, {1, 2, 1, 2, 3}, {mode, padding, align}));
  }
  // More positions than a block has.
  cases.push_back(sampling({1, 2, 4, 3}, {1, 9, 8, 2}, {"bicubic", "reflection", false}));
  cases.push_back(sampling({1, 2, 2, 3, 2}, {1, 5, 6, 5, 3}, {"bilinear", "border", true}));
}

}  // namespace tapegrad::testing
