#include "ops/resample.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <new>

#include "core/autograd/derivatives.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/internal/extent.h"
#include "ops/internal/kernels/grid_sample.h"
#include "ops/internal/operands.h"
#include "ops/matmul.h"
#include "ops/pool.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {
namespace kernels {

constinit decltype(resample) resample{"interpolate"};
constinit decltype(resample_adjoint) resample_adjoint{"interpolate_backward"};
constinit decltype(grid_sample) grid_sample{"grid_sample"};
constinit decltype(grid_sample_backward) grid_sample_backward{"grid_sample_backward"};

}  // namespace kernels

using namespace detail;

namespace {

/// Replaces dimension dim by weighted sums of its entries. Linear, and so is its adjoint.
struct Resample {
  static constexpr std::string_view kName = "interpolate";
  int dim;
  int64_t size;  // size of the result along dim
  Taps taps;
  bool adjoint = false;
  int64_t from{};  // size of the input along dim

  Tensor forward(const Tensor& x) {
    from = x.shape()[dim];
    Shape shape = x.shape();
    shape[dim] = size;
    Tensor y = x.empty_like(shape);
    Tensor rows = around(y, dim);
    (adjoint ? kernels::resample_adjoint : kernels::resample)(around(x, dim), taps, rows);
    return y;
  }
  Variable backward(const Variable& dy) const {
    return apply(Resample{dim, from, taps, !adjoint}, Where::current(), dy);
  }
};

/// Weights of Keys' cubic convolution (a = -0.75) for the pixels floor - 1 ... floor + 2 at
/// fraction t, which is a number or a Variable.
template <typename T>
std::array<T, 4> cubic_weights(const T& t) {
  constexpr double a = -0.75;
  const auto near = [](const T& d) { return ((a + 2) * d - (a + 3)) * d * d + 1.0; };
  const auto far = [](const T& d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  return {far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)};
}

/// Returns the taps for `out` results from `in` pixels; `scale` is the number of pixels per result.
Taps make_taps(int64_t in, int64_t out, double scale, const InterpolateOptions& o) {
  Taps taps;
  taps.count = o.mode == SampleMode::kLinear ? 2 : o.mode == SampleMode::kCubic ? 4 : 1;
  try {
    taps.index.resize(size_t(taps.count * out));
    taps.weight.resize(taps.index.size(), 1.0);
  } catch (const std::bad_alloc&) {
    fail<OutOfMemory>("interpolate: no memory to resize ", in, " pixels to ", out);
  }
  const auto set = [&](int64_t k, int64_t i, int64_t index, double weight) {
    taps.index[size_t(k * out + i)] = std::clamp<int64_t>(index, 0, in - 1);
    taps.weight[size_t(k * out + i)] = weight;
  };
  for (int64_t i = 0; i < out; ++i) {
    const double centre = (double(i) + 0.5) * scale;
    double at = o.align_corners ? double(i) * scale : centre - 0.5;
    switch (o.mode) {
      case SampleMode::kNearest:
        set(0, i, int64_t(std::floor(double(i) * scale)), 1.0);
        break;
      case SampleMode::kNearestExact:
        set(0, i, int64_t(std::floor(centre)), 1.0);
        break;
      case SampleMode::kArea:  // not by taps
        break;
      case SampleMode::kBilinear:
      case SampleMode::kTrilinear:
      case SampleMode::kLinear: {
        at = std::max(at, 0.0);
        const int64_t first = std::min(int64_t(at), in - 1);
        set(0, i, first, 1.0 - (at - double(first)));
        set(1, i, first + 1, at - double(first));
        break;
      }
      case SampleMode::kCubic: {
        const double first = std::floor(at);
        const std::array<double, 4> weights = cubic_weights(at - first);
        for (int k = 0; k < 4; ++k) set(k, i, int64_t(first) - 1 + k, weights[size_t(k)]);
        break;
      }
    }
  }
  return taps;
}

/// The output sizes and the scale in each dimension.
struct Resizing {
  std::vector<int64_t> sizes;
  std::vector<double> scales;

  Resizing(const Shape& x, const InterpolateOptions& o) {
    constexpr std::string_view kName = "interpolate";
    const int dims = x.rank() - 2;
    const std::vector<double>& factors = o.scale_factor;
    if (o.size.empty() == factors.empty())
      fail<ArgumentError>(kName, ": one of size and scale_factor wanted");
    if (o.size.size() > 1 && int(o.size.size()) != dims)
      fail<ArgumentError>(kName, ": ", o.size.size(), " sizes for ", dims, " dimensions of ", x);
    if (factors.size() > 1 && int(factors.size()) != dims)
      fail<ArgumentError>(kName, ": ", factors.size(), " factors for ", dims, " dimensions of ", x);
    for (const double factor : factors)
      if (!(factor > 0 && factor < 0x1p31))
        fail<ArgumentError>(kName, ": scale_factor is ", factor, ", not in (0, 2^31)");
    for (int i = 0; i < dims; ++i) {
      const int64_t in = x[2 + i];
      // One number stands for all dimensions.
      const auto of_dim = [i](const auto& all) { return all[all.size() == 1 ? 0 : size_t(i)]; };
      const double factor = factors.empty() ? 0 : of_dim(factors);
      const int64_t out =
          factors.empty() ? of_dim(o.size) : int64_t(std::floor(double(in) * factor));
      if (in < 1 || out < 1)
        fail<ShapeError>(kName, ": sizes must be positive: from ", in, " to ", out, " in dim ",
                         2 + i, " of ", x);
      if (out >= int64_t(1) << 31)
        fail<ShapeError>(kName, ": sizes must be below 2^31: from ", in, " to ", out, " in dim ",
                         2 + i, " of ", x);
      sizes.push_back(out);
      const bool given = !factors.empty() && !o.recompute_scale_factor;
      scales.push_back(o.align_corners ? (out > 1 ? double(in - 1) / double(out - 1) : 0.0)
                       : given         ? 1 / factor
                                       : double(in) / double(out));
    }
  }
};

Variable means_of_area(const Variable& x, const std::vector<int64_t>& sizes) {
  if (sizes.size() == 1) return adaptive_avg_pool1d(x, sizes[0]);
  if (sizes.size() == 2) return adaptive_avg_pool2d(x, {sizes[0], sizes[1]});
  return adaptive_avg_pool3d(x, {sizes[0], sizes[1], sizes[2]});
}

/// Returns kLinear in place of kBilinear and kTrilinear. Throws ShapeError if x has another number
/// of dimensions.
SampleMode linear_of(std::string_view op, SampleMode mode, const Shape& x) {
  if (mode != SampleMode::kBilinear && mode != SampleMode::kTrilinear) return mode;
  const bool is_flat = mode == SampleMode::kBilinear;
  if (x.rank() != (is_flat ? 4 : 5))
    fail<ShapeError>(op, ": mode ", is_flat ? "bilinear" : "trilinear", " is of ",
                     is_flat ? "[n, channels, height, width]" : "[n, channels, d, h, w]", ", not ",
                     x);
  return SampleMode::kLinear;
}

}  // namespace

Variable interpolate(const Variable& x, InterpolateOptions options, Where where) {
  const CallLine line(where);
  constexpr std::string_view kName = "interpolate";
  if (x.dtype() == u8)  // images
    return clamp(round(interpolate(x.to(f32), options, where)), {.min = 0, .max = 255}).to(u8);
  require_float(kName, x.value());
  if (x.rank() < 3 || x.rank() > 5)
    fail<ShapeError>(kName,
                     ": [n, channels, ...] with one to three dimensions wanted: ", x.shape());
  if (options.mode == SampleMode::kCubic && x.rank() != 4)
    fail<ShapeError>(kName, ": cubic interpolation is of [n, channels, height, width], not ",
                     x.shape());
  options.mode = linear_of(kName, options.mode, x.shape());
  const bool nearest = options.mode <= SampleMode::kNearestExact;
  const bool has_corners = !nearest && options.mode != SampleMode::kArea;
  if (options.align_corners && !has_corners)
    fail<ArgumentError>(kName, ": align_corners is not for the nearest pixel or the mean");
  const Resizing to(x.shape(), options);
  if (options.mode == SampleMode::kArea) return means_of_area(x, to.sizes);
  Variable y = nearest ? x : x.to(wide_dtype(x.dtype()));
  const size_t dims = to.sizes.size();
  const bool last_first = nearest && to.sizes.back() > x.shape()[x.rank() - 1];
  for (size_t step = 0; step < dims; ++step) {
    // Nearest pixels may be copied in any order. Enlarging the last dimension first leaves whole
    // rows for the other dimensions.
    const size_t i = last_first ? dims - 1 - step : step;
    const int dim = 2 + int(i);
    Taps taps = make_taps(x.shape()[dim], to.sizes[i], to.scales[i], options);
    y = apply(Resample{dim, to.sizes[i], std::move(taps)}, where, y);
  }
  return y.to(x.dtype());
}

Variable affine_grid(const Variable& theta, const Shape& size, bool align_corners, Where where) {
  const CallLine line(where);
  constexpr std::string_view kName = "affine_grid";
  require_float(kName, theta.value());
  const int dims = size.rank() - 2;
  if (dims != 2 && dims != 3)
    fail<ShapeError>(kName, ": size [n, c, h, w] or [n, c, d, h, w] wanted: ", size);
  if (theta.shape() != Shape{size[0], dims, dims + 1})
    fail<ShapeError>(kName, ": theta is ", theta.shape(), ", not [", size[0], ", ", dims, ", ",
                     dims + 1, "] for the size ", size);
  for (const int64_t each : size)
    if (each < 0) fail<ShapeError>(kName, ": a negative size: ", size);
  Shape spatial;
  for (int i = 0; i < dims; ++i) spatial.push_back(size[2 + i]);
  std::vector<Variable> base;  // x, y (, z) and 1 at every position
  for (int i = dims - 1; i >= 0; --i) {
    const int64_t n = spatial[i];
    const double end = n <= 1 ? 0.0 : align_corners ? 1.0 : double(n - 1) / double(n);
    Shape along = Dims::filled(dims, 1);
    along[i] = n;
    const Variable ticks =
        linspace(-end, end, n, {.dtype = theta.dtype(), .device = theta.device()});
    base.push_back(expand(reshape(ticks, along), spatial));
  }
  base.push_back(ones_like(base[0]));
  const Variable positions = reshape(stack(base, -1), {1, numel(spatial), dims + 1});
  Shape shape{size[0]};
  for (const int64_t each : spatial) shape.push_back(each);
  shape.push_back(dims);
  return reshape(matmul(positions, transpose(theta, 1, 2)), shape);
}

namespace {

/// One coordinate of a grid: converts from [-1, 1] to pixels and applies the padding mode.
struct Axis {
  int64_t size;
  GridSampleOptions options;

  Variable pixels(const Variable& g) const {
    if (options.align_corners) return (g + 1) * (double(size - 1) / 2);
    return ((g + 1) * double(size) - 1) * 0.5;
  }

  /// The gradient passes strictly inside, but not at the border or beyond.
  Variable clipped(const Variable& p) const { return hardtanh(p, 0.0, double(size - 1)); }

  Variable mirrored(const Variable& p) const {
    const double low = options.align_corners ? 0.0 : -0.5;
    const double span = options.align_corners ? double(size - 1) : double(size);
    if (span == 0) return p * 0;
    const Variable distance = abs(p - low);
    const Variable rest = fmod(distance, span);
    const Variable even = fmod(floor(distance / span), 2) == 0;
    return where(even, rest, span - rest) + low;
  }

  Variable padded(const Variable& p) const {
    switch (options.padding_mode) {
      case GridPadding::kBorder:
        return clipped(p);
      case GridPadding::kReflection:
        return clipped(mirrored(p));
      case GridPadding::kZeros:
        break;
    }
    return p;
  }
};

/// Integer positions along one axis, with their weights.
struct Corner {
  Variable position, weight;
};

std::vector<Corner> corners(const Axis& axis, const Variable& g) {
  Variable p = axis.pixels(g);
  std::vector<Corner> result;
  switch (axis.options.mode) {
    case SampleMode::kNearest:
      result.push_back({round(axis.padded(p)).detach(), ones_like(p)});
      break;
    case SampleMode::kCubic: {
      const Variable first = floor(p).detach();
      const std::array<Variable, 4> weights = cubic_weights(p - first);
      for (int k = 0; k < 4; ++k)
        result.push_back({axis.padded(first + double(k - 1)), weights[size_t(k)]});
      break;
    }
    default: {
      p = axis.padded(p);
      const Variable first = floor(p).detach(), t = p - first;
      result.push_back({first, 1 - t});
      result.push_back({first + 1, t});
    }
  }
  return result;
}

/// grid_sample composed of gathers, one for each corner.
Variable grid_sample_by_ops(const Variable& x, const Variable& grid,
                            const GridSampleOptions& options) {
  const Shape &from = x.shape(), &to = grid.shape();
  const int dims = from.rank() - 2;
  int64_t pixel_count = 1, count = 1;
  for (int i = 0; i < dims; ++i) {
    pixel_count *= from[2 + i];
    count *= to[1 + i];
  }
  const int64_t n = from[0], c = from[1];
  const Variable pixels = reshape(x, {n, c, pixel_count});
  const Variable places = reshape(grid, {n, 1, count, dims});
  struct Corners {  // a corner of the axes processed so far
    Variable index, weight, inside;
  };
  std::vector<Corners> all(1);
  for (int i = 0; i < dims; ++i) {  // the first dimension's coordinate is the last one
    const int64_t size = from[2 + i];
    std::vector<Corners> longer;
    for (const Corner& here : corners({size, options}, select(places, 3, dims - 1 - i))) {
      const Variable inside = logical_and(here.position >= 0, here.position <= double(size - 1));
      const Variable index = tapegrad::where(inside, here.position, 0).to(i64);
      for (const Corners& before : all)
        longer.push_back({i == 0 ? index : before.index * size + index,
                          i == 0 ? here.weight : before.weight * here.weight,
                          i == 0 ? inside : logical_and(before.inside, inside)});
    }
    all = std::move(longer);
  }
  Variable y;
  for (const Corners& corner : all) {
    const Variable weight = tapegrad::where(corner.inside, corner.weight, 0);
    const Variable term = gather(pixels, 2, expand(corner.index, {n, c, count})) * weight;
    y = y.defined() ? y + term : term;
  }
  Shape shape{n, c};
  for (int i = 0; i < dims; ++i) shape.push_back(to[1 + i]);
  return reshape(y, shape);
}

struct GridSample {
  static constexpr std::string_view kName = "grid_sample";
  GridSampleOptions options;
  SavedInput<0> x{};
  SavedInput<1> grid{};
  auto saved() { return std::tie(x, grid); }

  Tensor forward(const Tensor& x, const Tensor& grid) const {
    Shape shape{x.shape()[0], x.shape()[1]};
    for (int i = 1; i < grid.rank() - 1; ++i) shape.push_back(grid.shape()[i]);
    Tensor y = x.empty_like(shape);
    kernels::grid_sample(x.contiguous(), grid.contiguous(), options, y);
    return y;
  }
  std::vector<Variable> backward(const Variable& dy) const {
    return vjp(
               [&](const std::vector<Variable>& xs) -> std::vector<Variable> {
                 return {grid_sample_by_ops(xs[0], xs[1], options)};
               },
               std::vector<Variable>{x(), grid()}, std::vector<Variable>{dy},
               {.create_graph = true})
        .products;
  }
  std::vector<Tensor> kernel_backward(const Tensor& dy, Needs needs) const {
    const Tensor x = this->x.value(), grid = this->grid.value();
    std::vector<Tensor> dx(2);
    if (needs[0]) dx[0] = x.empty_like(x.shape());
    if (needs[1]) dx[1] = grid.empty_like(grid.shape());
    kernels::grid_sample_backward(dy.contiguous(), x.contiguous(), grid.contiguous(), options,
                                  dx[0], dx[1]);
    return dx;
  }
};

}  // namespace

Variable grid_sample(const Variable& x, const Variable& grid, GridSampleOptions options,
                     Where where) {
  const CallLine line(where);
  constexpr std::string_view kName = "grid_sample";
  require_float(kName, x.value());
  const Shape &from = x.shape(), &to = grid.shape();
  const int dims = from.rank() - 2;
  if ((dims != 2 && dims != 3) || to.rank() != from.rank() || to[dims + 1] != dims ||
      to[0] != from[0])
    fail<ShapeError>(kName,
                     ": input [n, c, h, w] and grid [n, h', w', 2] wanted, or input "
                     "[n, c, d, h, w] and grid [n, d', h', w', 3]: ",
                     from, " and ", to);
  int64_t pixel_count = 1;
  for (int i = 0; i < dims; ++i) pixel_count *= from[2 + i];
  if (pixel_count == 0) fail<ShapeError>(kName, ": images without pixels: ", from);
  // "bilinear" of volumes is trilinear, as in PyTorch.
  if (options.mode == SampleMode::kBilinear) options.mode = SampleMode::kLinear;
  options.mode = linear_of(kName, options.mode, from);
  if (options.mode == SampleMode::kNearestExact || options.mode == SampleMode::kArea)
    fail<ArgumentError>(kName, ": mode is kNearest, kLinear or kCubic");
  if (options.mode == SampleMode::kCubic && dims == 3)
    fail<ArgumentError>(kName, ": kCubic is of images: ", from);
  check_same_device(kName, x.value(), grid.value());
  check_same_dtype(kName, x.value(), grid.value());
  const DType dtype = wide_dtype(x.dtype());
  const Variable pixels = x.to(dtype), places = grid.to(dtype);
  const bool in_one_pass = x.numel() > 0 && grid.numel() > 0 && pixel_count < int64_t(1) << 31 &&
                           kernels::grid_sample.has(x.device().type, dtype);
  const Variable y = in_one_pass ? apply(GridSample{options}, where, pixels, places)
                                 : grid_sample_by_ops(pixels, places, options);
  return y.to(x.dtype());
}

void catalog_sample(Catalog& catalog) {
  catalog.add(
      "interpolate(input, size: ints = none, scale_factor: float = none, mode: str = nearest, "
      "align_corners: bool = false, recompute_scale_factor: bool = false)",
      "x at other positions in its last dimensions", [](const Arguments& a) {
        InterpolateOptions o{.mode = a.text("mode"),
                             .align_corners = a.flag("align_corners"),
                             .recompute_scale_factor = a.flag("recompute_scale_factor")};
        if (a.has("size")) o.size = a.integers("size");
        if (a.has("scale_factor")) o.scale_factor = a.real("scale_factor");
        return interpolate(a[0], o);
      });
  catalog.add(
      "affine_grid(theta, size: ints, align_corners: bool = false)",
      "theta (x, y, 1) at every position of an image",
      [](const Arguments& a) { return affine_grid(a[0], a.dims("size"), a.flag("align_corners")); },
      {.example = [](DType dtype) -> Arguments {
        return {.inputs = {Variable(Tensor::full({1, 2, 3}, 1, dtype))},
                .attributes = {{"size", std::vector<int64_t>{1, 1, 2, 2}}}};
      }});
  catalog.add(
      "grid_sample(input, grid, mode: str = bilinear, padding_mode: str = zeros, "
      "align_corners: bool = false)",
      "x at the positions (x, y) of the grid",
      [](const Arguments& a) {
        return grid_sample(a[0], a[1],
                           {.mode = a.text("mode"),
                            .padding_mode = a.text("padding_mode"),
                            .align_corners = a.flag("align_corners")});
      },
      {.example = [](DType dtype) -> Arguments {
        return {.inputs = {Variable(Tensor::full({1, 1, 2, 2}, 1, dtype)),
                           Variable(Tensor::full({1, 2, 2, 2}, 1, dtype))}};
      }});
}

int64_t Taps::results() const { return int64_t(index.size()) / count; }
}  // namespace tapegrad
