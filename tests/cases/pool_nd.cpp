#include <cmath>
#include <limits>

#include "tests/cases/drawn_cases.h"
#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

using Index = std::vector<int64_t>;

/// Options of pooling in one, two or three dimensions, one number per dimension.
struct PoolSetting {
  Index kernel = {}, stride = {}, padding = {}, dilation = {};
  bool ceil_mode = false, count_include_pad = true;
  int dims() const { return int(kernel.size()); }
};

/// The elements of a window along one dimension, and the count that the mean divides by.
struct Elements {
  Index inside;
  int64_t padded = 0;
};
using Windows = std::vector<std::vector<Elements>>;  // per dimension

Windows sliding(const PoolSetting& s, const Shape& x) {
  Windows all(size_t(s.dims()));
  for (int d = 0; d < s.dims(); ++d) {
    const int64_t n = x[2 + d], dilation = s.dilation.empty() ? 1 : s.dilation[d];
    for (int64_t begin = -s.padding[d]; begin < n; begin += s.stride[d]) {
      const int64_t end = begin + dilation * (s.kernel[d] - 1) + 1;
      if (end - n - s.padding[d] > (s.ceil_mode ? s.stride[d] - 1 : 0)) break;
      Elements window;
      for (int64_t i = begin; i < end; i += dilation) {
        if (i < n + s.padding[d]) ++window.padded;
        if (i >= 0 && i < n) window.inside.push_back(i);
      }
      all[d].push_back(window);
    }
  }
  return all;
}

Windows even(const Index& sizes, const Shape& x) {
  Windows all(sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d)
    for (int64_t w = 0; w < sizes[d]; ++w) {
      const double n = double(x[2 + int(d)]), count = double(sizes[d]);
      Elements window;
      for (int64_t i = 0; i < x[2 + int(d)]; ++i)
        if (double(i) >= std::floor(double(w) * n / count) &&
            double(i) < std::ceil(double(w + 1) * n / count))
          window.inside.push_back(i);
      window.padded = int64_t(window.inside.size());
      all[d].push_back(window);
    }
  return all;
}

enum class Kind { kMax, kAverage, kAverageInside, kPower };

/// Computes one result per window.
Array pooled(const Array& x, const Windows& windows, Kind kind, double p = 0) {
  Array y{{x.shape[0], x.shape[1]}, {}};
  for (const auto& along : windows) y.shape.push_back(int64_t(along.size()));
  for_each_index(y.shape, [&](int64_t, const Index& to) {
    double best = -std::numeric_limits<double>::infinity(), sum = 0, powers = 0;
    double inside = 1, padded = 1;
    Shape sizes;
    for (size_t d = 0; d < windows.size(); ++d) {
      const Elements& window = windows[d][size_t(to[2 + d])];
      sizes.push_back(int64_t(window.inside.size()));
      inside *= double(window.inside.size()), padded *= double(window.padded);
    }
    for_each_index(sizes, [&](int64_t, const Index& at) {
      Index from{to[0], to[1]};
      for (size_t d = 0; d < windows.size(); ++d)
        from.push_back(windows[d][size_t(to[2 + d])].inside[size_t(at[d])]);
      const double value = x.values[flat_index(x.shape, from)];
      best = std::fmax(best, value), sum += value, powers += std::pow(value, p);
    });
    y.values.push_back(kind == Kind::kMax       ? best
                       : kind == Kind::kAverage ? sum / padded
                       : kind == Kind::kPower   ? std::pow(powers, 1 / p)
                                                : sum / inside);
  });
  return y;
}

Attributes attributes(const PoolSetting& s, bool max) {
  Attributes all{{"kernel_size", s.kernel},
                 {"stride", s.stride},
                 {"padding", s.padding},
                 {"ceil_mode", s.ceil_mode}};
  if (max && !s.dilation.empty()) all.emplace("dilation", s.dilation);
  if (!max) all.emplace("count_include_pad", s.count_include_pad);
  return all;
}

void unpool_cases(OpCases& cases, const std::string& d, Shape shape, Index kernel) {
  cases.push_back({.op = "max_unpool" + d,
                   .inputs = {Input{shape}, Input{shape, Fill::kIndices, 4}},
                   .attributes = {{"kernel_size", kernel}},
                   .reference = [kernel](const std::vector<Array>& in) {
                     Array y{in[0].shape, {}};
                     int64_t count = 1, size = 1;
                     for (int i = 2; i < y.shape.rank(); ++i) {
                       count *= y.shape[i];
                       size *= y.shape[i] *= kernel[i - 2];
                     }
                     y.values.resize(numel(y.shape));
                     for (size_t i = 0; i < in[0].values.size(); ++i)
                       y.values[i / count * size + size_t(in[1].values[i])] = in[0].values[i];
                     return y;
                   }});
}

OpCase max_case(const std::string& op, Shape shape, const PoolSetting& s) {
  return {.op = op,
          .inputs = {Input{shape, Fill::kDistinct}},
          .attributes = attributes(s, true),
          .reference = [=](const std::vector<Array>& in) {
            return pooled(in[0], sliding(s, in[0].shape), Kind::kMax);
          }};
}

OpCase average_case(const std::string& d, Shape shape, const PoolSetting& s) {
  const Kind kind = s.count_include_pad ? Kind::kAverage : Kind::kAverageInside;
  return {.op = "avg_pool" + d,
          .inputs = {Input{shape}},
          .attributes = attributes(s, false),
          .reference =
              [=](const std::vector<Array>& in) {
                return pooled(in[0], sliding(s, in[0].shape), kind);
              },
          .tolerance = 16};
}

OpCase adaptive_case(const std::string& d, Shape shape, const Index& sizes, bool max) {
  return {.op = (max ? "adaptive_max_pool" : "adaptive_avg_pool") + d,
          .inputs = {Input{shape, Fill::kDistinct}},
          .attributes = {{"output_size", sizes}},
          .reference =
              [=](const std::vector<Array>& in) {
                return pooled(in[0], even(sizes, in[0].shape), max ? Kind::kMax : Kind::kAverage);
              },
          .tolerance = 16};
}

OpCase power_case(const std::string& d, Shape shape, const PoolSetting& s, double p) {
  return {.op = "lp_pool" + d,
          .inputs = {Input{shape, Fill::kPositive}},
          .attributes = {{"norm_type", p}, {"kernel_size", s.kernel}, {"stride", s.stride}},
          .reference =
              [=](const std::vector<Array>& in) {
                return pooled(in[0], sliding(s, in[0].shape), Kind::kPower, p);
              },
          .tolerance = 16};
}

}  // namespace

void draw_pool(OpCases& cases, Choices& choices) {
  const int dims = int(choices.between(1, 3));
  const std::string d = std::to_string(dims) + "d";
  Shape shape{choices.between(1, 2), choices.between(1, 3)};
  const int64_t most = dims == 1 ? 20 : dims == 2 ? 8 : 4;
  const size_t kind = choices.below(5);
  if (kind == 0) {
    Index sizes;
    for (int i = 0; i < dims; ++i) {
      shape.push_back(choices.between(1, most));
      sizes.push_back(choices.between(1, most));
    }
    cases.push_back(adaptive_case(d, shape, sizes, choices.flag()));
    return;
  }
  PoolSetting s;
  s.ceil_mode = kind != 1 && choices.flag();
  s.count_include_pad = choices.flag();
  for (int i = 0; i < dims; ++i) {
    const int64_t kernel = choices.between(1, 4), dilation = kind == 4 ? choices.between(1, 3) : 1;
    const int64_t padding = kind == 1 || kind == 4 ? 0 : choices.between(0, kernel / 2);
    s.kernel.push_back(kernel);
    s.stride.push_back(choices.between(1, 4));
    s.padding.push_back(padding);
    if (kind == 4) s.dilation.push_back(dilation);
    const int64_t reach = dilation * (kernel - 1) + 1;
    shape.push_back(std::max<int64_t>(reach - 2 * padding, 1) + choices.between(0, most));
  }
  if (kind == 1)
    cases.push_back(power_case(d, shape, s, choices.of({1.0, 2.0, 3.0})));
  else if (kind == 2)
    cases.push_back(average_case(d, shape, s));
  else
    cases.push_back(max_case("max_pool" + d + (choices.flag() ? "_with_indices" : ""), shape, s));
}

void pool_nd_cases(OpCases& cases) {
  const auto add = [&](const std::string& d, Shape shape, const PoolSetting& s) {
    if (d != "2d") cases.push_back(max_case("max_pool" + d, shape, s));  // covered by pool.cpp
    cases.push_back(max_case("max_pool" + d + "_with_indices", shape, s));
    if (d != "2d" && s.dilation.empty()) cases.push_back(average_case(d, shape, s));
  };
  add("1d", {2, 2, 7}, {{3}, {2}, {1}});
  add("1d", {1, 2, 8}, {{3}, {3}, {0}, {}, true, false});
  add("1d", {1, 2, 8}, {{2}, {1}, {1}, {3}});
  add("2d", {1, 2, 4, 5}, {{2, 3}, {2, 1}, {1, 1}});
  add("3d", {1, 2, 4, 3, 4}, {{2, 2, 3}, {2, 1, 1}, {1, 0, 1}});
  add("3d", {1, 1, 3, 5, 4}, {{2, 3, 2}, {2, 2, 2}, {0, 1, 1}, {}, true, false});
  add("3d", {1, 1, 4, 3, 4}, {{2, 2, 2}, {1, 1, 1}, {1, 0, 0}, {2, 1, 2}});

  const auto add_adaptive = [&](const std::string& d, Shape shape, Index sizes) {
    if (d != "2d") cases.push_back(adaptive_case(d, shape, sizes, false));
    cases.push_back(adaptive_case(d, shape, sizes, true));
    OpCase with_indices = cases.back();
    with_indices.op += "_with_indices";
    cases.push_back(with_indices);
  };
  add_adaptive("1d", {2, 2, 7}, {3});
  add_adaptive("1d", {1, 2, 3}, {5});
  add_adaptive("2d", {2, 2, 4, 5}, {2, 3});
  add_adaptive("2d", {1, 1, 3, 2}, {5, 1});
  add_adaptive("3d", {1, 2, 3, 4, 5}, {2, 3, 2});
  add_adaptive("3d", {1, 2, 2, 3, 3}, {1, 1, 4});

  for (const double p : {1.0, 2.0, 3.0}) {
    cases.push_back(power_case("1d", {1, 2, 7}, {{3}, {2}, {0}}, p));
    cases.push_back(power_case("2d", {1, 2, 4, 5}, {{2, 3}, {2, 1}, {0, 0}}, p));
    cases.push_back(power_case("3d", {1, 2, 3, 2, 4}, {{2, 1, 2}, {1, 1, 2}, {0, 0, 0}}, p));
  }
  unpool_cases(cases, "1d", {2, 2, 3}, {2});
  unpool_cases(cases, "2d", {1, 2, 2, 3}, {2, 2});
  unpool_cases(cases, "3d", {1, 2, 2, 1, 2}, {1, 2, 2});
}

}  // namespace tapegrad::testing
