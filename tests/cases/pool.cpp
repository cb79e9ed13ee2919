#include <cmath>
#include <limits>

#include "tests/cases/op_case.h"

namespace tapegrad::testing {
namespace {

struct Pool2dSetting {
  int64_t kernel, stride, padding = 0, dilation = 1;
  bool ceil_mode = false, count_include_pad = true;

  int64_t windows(int64_t size) const {
    int64_t n = 0;  // number of windows: they start inside, and end inside unless in ceil_mode
    for (int64_t begin = -padding; begin < size; begin += stride) {
      const int64_t end = begin + dilation * (kernel - 1) + 1;
      if (end - size - padding > (ceil_mode ? stride - 1 : 0)) break;
      ++n;
    }
    return n;
  }
  Attributes attributes(bool max) const {
    Attributes all{{"kernel_size", std::vector<int64_t>{kernel}},
                   {"stride", std::vector<int64_t>{stride}},
                   {"padding", std::vector<int64_t>{padding}},
                   {"ceil_mode", ceil_mode}};
    if (max)
      all.emplace("dilation", std::vector<int64_t>{dilation});
    else
      all.emplace("count_include_pad", count_include_pad);
    return all;
  }
};

/// Calls window(n, c, i, j) for every output; the results of the calls are the values.
template <typename Window>
Array pooled(const Shape& x, int64_t rows, int64_t columns, Window window) {
  Array y{{x[0], x[1], rows, columns}, {}};
  for_each_index(y.shape, [&](int64_t, const std::vector<int64_t>& at) {
    y.values.push_back(window(at[0] * x[1] + at[1], at[2], at[3]));
  });
  return y;
}

Reference max_pool(const Pool2dSetting& s) {
  return [s](const std::vector<Array>& in) {
    const Shape& x = in[0].shape;
    return pooled(x, s.windows(x[2]), s.windows(x[3]), [&](int64_t plane, int64_t i, int64_t j) {
      double best = -std::numeric_limits<double>::infinity();
      for (int64_t u = 0; u < s.kernel; ++u)
        for (int64_t v = 0; v < s.kernel; ++v) {
          const int64_t row = i * s.stride - s.padding + u * s.dilation;
          const int64_t column = j * s.stride - s.padding + v * s.dilation;
          if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
          best = std::max(best, in[0].values[size_t((plane * x[2] + row) * x[3] + column)]);
        }
      return best;
    });
  };
}

Reference avg_pool(const Pool2dSetting& s) {
  return [s](const std::vector<Array>& in) {
    const Shape& x = in[0].shape;
    return pooled(x, s.windows(x[2]), s.windows(x[3]), [&](int64_t plane, int64_t i, int64_t j) {
      double sum = 0, inside = 0, padded = 0;
      for (int64_t u = 0; u < s.kernel; ++u)
        for (int64_t v = 0; v < s.kernel; ++v) {
          const int64_t row = i * s.stride - s.padding + u;
          const int64_t column = j * s.stride - s.padding + v;
          if (row < x[2] + s.padding && column < x[3] + s.padding) ++padded;
          if (row < 0 || row >= x[2] || column < 0 || column >= x[3]) continue;
          ++inside;
          sum += in[0].values[size_t((plane * x[2] + row) * x[3] + column)];
        }
      return sum / (s.count_include_pad ? padded : inside);
    });
  };
}

Reference adaptive(int64_t rows, int64_t columns) {
  return [rows, columns](const std::vector<Array>& in) {
    const Shape& x = in[0].shape;
    return pooled(x, rows, columns, [&](int64_t plane, int64_t i, int64_t j) {
      double sum = 0, count = 0;
      for (int64_t row = 0; row < x[2]; ++row)
        for (int64_t column = 0; column < x[3]; ++column) {
          if (row < std::floor(double(i * x[2]) / double(rows)) ||
              row >= std::ceil(double((i + 1) * x[2]) / double(rows)) ||
              column < std::floor(double(j * x[3]) / double(columns)) ||
              column >= std::ceil(double((j + 1) * x[3]) / double(columns)))
            continue;
          sum += in[0].values[size_t((plane * x[2] + row) * x[3] + column)];
          ++count;
        }
      return sum / count;
    });
  };
}

}  // namespace

void pool_cases(OpCases& cases) {
  const std::vector<std::pair<Pool2dSetting, Shape>> settings{
      {{.kernel = 2, .stride = 2}, {2, 2, 4, 6}},
      {{.kernel = 2, .stride = 2}, {1, 2, 5, 5}},
      {{.kernel = 3, .stride = 1, .padding = 1}, {1, 2, 4, 4}},
      {{.kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true}, {1, 2, 4, 5}},
      {{.kernel = 2, .stride = 3, .ceil_mode = true, .count_include_pad = false}, {1, 1, 6, 7}},
      {{.kernel = 3, .stride = 2, .padding = 1, .count_include_pad = false}, {1, 2, 5, 4}}};
  for (const auto& [s, shape] : settings) {
    cases.push_back({.op = "max_pool2d",
                     .inputs = {Input{shape, Fill::kDistinct}},
                     .attributes = s.attributes(true),
                     .reference = max_pool(s)});
    cases.push_back({.op = "avg_pool2d",
                     .inputs = {Input{shape}},
                     .attributes = s.attributes(false),
                     .reference = avg_pool(s),
                     .tolerance = 16});
  }
  const Pool2dSetting dilated{.kernel = 2, .stride = 1, .padding = 1, .dilation = 2};
  cases.push_back({.op = "max_pool2d",
                   .inputs = {Input{{1, 2, 4, 5}, Fill::kDistinct}},
                   .attributes = dilated.attributes(true),
                   .reference = max_pool(dilated)});
  // Rows that are long enough for the vectors of 2 x 2 windows, and images with a packed layout.
  const Pool2dSetting halves{.kernel = 2, .stride = 2}, overlapping{.kernel = 3, .stride = 1};
  cases.push_back({.op = "max_pool2d",
                   .inputs = {Input{{1, 2, 5, 19}, Fill::kDistinct}},
                   .attributes = halves.attributes(true),
                   .reference = max_pool(halves)});
  cases.push_back({.op = "max_pool2d",
                   .inputs = {Input{{1, 32, 34, 34}, Fill::kDistinct}},
                   .attributes = overlapping.attributes(true),
                   .reference = max_pool(overlapping),
                   .tolerance = 16,
                   .dtypes = {f32},
                   .before = packed_images});
  // Windows of many elements.
  for (const auto& [s, shape] :
       {std::pair(Pool2dSetting{.kernel = 7, .stride = 7}, Shape{1, 2, 7, 7}),
        std::pair(Pool2dSetting{.kernel = 8, .stride = 4, .padding = 2}, Shape{1, 1, 12, 12})})
    cases.push_back({.op = "max_pool2d",
                     .inputs = {Input{shape, Fill::kDistinct}},
                     .attributes = s.attributes(true),
                     .reference = max_pool(s)});
  for (const int size : {1, 17})
    cases.push_back({.op = "adaptive_avg_pool2d",
                     .inputs = {Input{{1, 32, 34, 34}}},
                     .attributes = {{"output_size", std::vector<int64_t>{size, size}}},
                     .reference = adaptive(size, size),
                     .tolerance = 64,
                     .dtypes = {f32, bf16},
                     .before = packed_images});
  for (const auto& [rows, columns] : {std::pair{1, 1}, {2, 3}, {3, 2}, {5, 7}})
    cases.push_back({.op = "adaptive_avg_pool2d",
                     .inputs = {Input{{2, 2, 4, 5}}},
                     .attributes = {{"output_size", std::vector<int64_t>{rows, columns}}},
                     .reference = adaptive(rows, columns),
                     .tolerance = 16});
}

}  // namespace tapegrad::testing
