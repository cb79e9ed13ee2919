// Pooling of signals and volumes (ops/pool.h), computed by pooling of images. A signal is an image
// of height 1. A window of a volume is pooled within its planes first, then across planes.
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "ops/activation.h"
#include "ops/binary.h"
#include "ops/catalog.h"
#include "ops/create.h"
#include "ops/index.h"
#include "ops/internal/operands.h"
#include "ops/internal/pool_parts.h"
#include "ops/internal/unbatched.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {

using namespace detail;

namespace {

void check_signals(std::string_view op, const Variable& x) {
  if (x.rank() != 3) fail<ShapeError>(op, ": [batch, channels, length] wanted: ", x.shape());
}
void check_volumes(std::string_view op, const Variable& x) {
  if (x.rank() != 5)
    fail<ShapeError>(op, ": [batch, channels, depth, height, width] wanted: ", x.shape());
}

/// Returns the options for images of height 1.
MaxPool2dOptions flat(const MaxPool1dOptions& o) {
  return {.kernel_size = {1, o.kernel_size},
          .stride = Size2d(1, o.stride.value_or(o.kernel_size)),
          .padding = {0, o.padding},
          .dilation = {1, o.dilation},
          .ceil_mode = o.ceil_mode};
}
AvgPool2dOptions flat(const AvgPool1dOptions& o) {
  return {.kernel_size = {1, o.kernel_size},
          .stride = Size2d(1, o.stride.value_or(o.kernel_size)),
          .padding = {0, o.padding},
          .ceil_mode = o.ceil_mode,
          .count_include_pad = o.count_include_pad,
          .divisor_override = o.divisor_override};
}

/// Window sizes of a volume within planes, and across planes: along the rows of
/// [depth, height * width].
struct WindowSplit {
  Size2d in_planes, across;
};
WindowSplit split(Size3d size, int64_t idle) { return {size.plane(), {size.depth, idle}}; }

/// planes(): [n, c, d, h, w] with planes as channels, [n, c d, h, w]. rows_of(): pooled planes
/// [n, c d, h', w'] with planes as rows, [n, c, d, h' w'].
Variable planes(const Variable& x) {
  const Shape& s = x.shape();
  return reshape(x, {s[0], s[1] * s[2], s[3], s[4]});
}
Variable rows_of(const Variable& y, const Shape& x) {
  return reshape(y, {x[0], x[1], x[2], y.size(2) * y.size(3)});
}

/// Reshapes pooled rows [n, c, d', h' w'] to a volume.
Variable volume(const Variable& rows, const Variable& pooled_planes) {
  return reshape(rows, {rows.size(0), rows.size(1), rows.size(2), pooled_planes.size(2),
                        pooled_planes.size(3)});
}

/// Returns whether no window within planes crosses the edge between planes that lie one below the
/// other.
bool tiles_planes(const Variable& x, Size2d kernel, Size2d stride, Size2d padding) {
  return x.numel() > 0 && kernel.height > 0 && stride.height == kernel.height &&
         padding.height == 0 && x.size(3) % kernel.height == 0;
}

/// Pools within planes, then across planes. Planes that are `tiled` are pooled as one image of
/// [d h, w], because channels then stay channels, as packed layouts require.
template <typename Planes, typename Across>
Variable pool_volume(const Variable& x, bool tiled, Planes in_planes, Across across) {
  const Shape& s = x.shape();
  if (!tiled) {
    const Variable pooled = in_planes(planes(x));
    return volume(across(rows_of(pooled, s)), pooled);
  }
  const Variable pooled = in_planes(reshape(x, {s[0], s[1], s[2] * s[3], s[4]}));
  const int64_t height = pooled.size(2) / s[2], width = pooled.size(3);
  const Variable rows = across(reshape(pooled, {s[0], s[1], s[2], height * width}));
  return reshape(rows, {s[0], s[1], rows.size(2), height, width});
}

struct SplitMaxPool {
  MaxPool2dOptions in_planes, across;

  explicit SplitMaxPool(const MaxPool3dOptions& o)
      : in_planes{.kernel_size = 1}, across{.kernel_size = 1} {
    const WindowSplit kernel = split(o.kernel_size, 1);
    const WindowSplit stride = split(o.stride.value_or(o.kernel_size), 1);
    const WindowSplit padding = split(o.padding, 0), dilation = split(o.dilation, 1);
    in_planes = {
        {}, kernel.in_planes, stride.in_planes, padding.in_planes, dilation.in_planes, o.ceil_mode};
    across = {{}, kernel.across, stride.across, padding.across, dilation.across, o.ceil_mode};
  }
};

/// Pools within planes and then across them; returns positions in the volume.
template <typename Planes, typename Rows>
ValuesIndices max_of_volume(const Variable& x, Planes pool_planes, Rows pool_rows) {
  const Shape& s = x.shape();
  const ValuesIndices in_planes = pool_planes(planes(x));
  const ValuesIndices across = pool_rows(rows_of(in_planes.values, s));
  // The positions of each plane's maxima in the volume, from which the selected planes' maxima are
  // taken.
  const Variable starts = reshape(arange(s[2]).to(x.device()) * (s[3] * s[4]), {s[2], 1});
  const Variable places = flatten(rows_of(in_planes.indices, s) + starts, 2);
  const Variable chosen =
      reshape(gather(places, 2, flatten(across.indices, 2)), across.indices.shape());
  return {volume(across.values, in_planes.values), volume(chosen, in_planes.values)};
}

/// Returns the windows along depth, height and width.
std::vector<PooledDim> windows_of(const Shape& s, const WindowSplit& kernel,
                                  const WindowSplit& stride, const WindowSplit& padding,
                                  bool ceil_mode) {
  const auto count = [&](const Shape& images, Size2d WindowSplit::*part) {
    return pooled_shape("avg_pool3d", images,
                        {.kernel = kernel.*part,
                         .stride = stride.*part,
                         .padding = padding.*part,
                         .ceil_mode = ceil_mode});
  };
  const Shape planes = count({s[0], s[1], s[3], s[4]}, &WindowSplit::in_planes);
  const Shape rows = count({s[0], s[1], s[2], 1}, &WindowSplit::across);
  return {{kernel.across.height, stride.across.height, padding.across.height, rows[2]},
          {kernel.in_planes.height, stride.in_planes.height, padding.in_planes.height, planes[2]},
          {kernel.in_planes.width, stride.in_planes.width, padding.in_planes.width, planes[3]}};
}

}  // namespace

Variable max_pool1d(const Variable& x, MaxPool1dOptions options, Where where) {
  if (is_unbatched(x, 1)) [[unlikely]]
    return as_batch(x, where, [&](const Variable& batch) { return max_pool1d(batch, options); });
  const CallLine line(where);
  check_signals("max_pool1d", x);
  return squeeze(max_pool2d(unsqueeze(x, 2), flat(options)), 2);
}

Variable max_pool3d(const Variable& x, MaxPool3dOptions options, Where where) {
  if (is_unbatched(x, 3)) [[unlikely]]
    return as_batch(x, where, [&](const Variable& batch) { return max_pool3d(batch, options); });
  const CallLine line(where);
  check_volumes("max_pool3d", x);
  const SplitMaxPool pool(options);
  const MaxPool2dOptions& o = pool.in_planes;
  const bool tiled = o.dilation.height == 1 && tiles_planes(x, o.kernel_size, *o.stride, o.padding);
  return pool_volume(
      x, tiled, [&](const Variable& planes) { return max_pool2d(planes, pool.in_planes); },
      [&](const Variable& rows) { return max_pool2d(rows, pool.across); });
}

ValuesIndices max_pool1d_with_indices(const Variable& x, MaxPool1dOptions options, Where where) {
  if (is_unbatched(x, 1)) [[unlikely]]
    return as_batch(x, where,
                    [&](const Variable& batch) { return max_pool1d_with_indices(batch, options); });
  const CallLine line(where);
  check_signals("max_pool1d_with_indices", x);
  const ValuesIndices y = max_pool2d_with_indices(unsqueeze(x, 2), flat(options));
  return {squeeze(y.values, 2), squeeze(y.indices, 2)};
}

ValuesIndices max_pool3d_with_indices(const Variable& x, MaxPool3dOptions options, Where where) {
  if (is_unbatched(x, 3)) [[unlikely]]
    return as_batch(x, where,
                    [&](const Variable& batch) { return max_pool3d_with_indices(batch, options); });
  const CallLine line(where);
  check_volumes("max_pool3d_with_indices", x);
  const SplitMaxPool pool(options);
  return max_of_volume(
      x, [&](const Variable& planes) { return max_pool2d_with_indices(planes, pool.in_planes); },
      [&](const Variable& rows) { return max_pool2d_with_indices(rows, pool.across); });
}

namespace {

/// Returns the input size of a pooling with n results, along one dimension.
int64_t unpooled(int64_t n, int64_t kernel, int64_t stride, int64_t padding) {
  return (n - 1) * stride - 2 * padding + kernel;
}

}  // namespace

Variable max_unpool1d(const Variable& x, const Variable& indices, MaxUnpoolOptions<int64_t> o,
                      Where where) {
  if (is_unbatched(x, 1)) [[unlikely]]
    return as_batch(x, where, [&](const Variable& batch) {
      return max_unpool1d(batch, unsqueeze(indices, 0), o);
    });
  const ErrorLine line(where);
  check_signals("max_unpool1d", x);
  const int64_t stride = o.stride.value_or(o.kernel_size);
  check_windows("max_unpool1d", {o.kernel_size, stride, o.padding});
  const int64_t size =
      o.output_size.value_or(unpooled(x.shape()[2], o.kernel_size, stride, o.padding));
  return detail::max_unpool("max_unpool1d", x, indices, {size}, where);
}

Variable max_unpool2d(const Variable& x, const Variable& indices, MaxUnpoolOptions<Size2d> o,
                      Where where) {
  if (is_unbatched(x, 2)) [[unlikely]]
    return as_batch(x, where, [&](const Variable& batch) {
      return max_unpool2d(batch, unsqueeze(indices, 0), o);
    });
  const ErrorLine line(where);
  require_images("max_unpool2d", x.shape());
  const Size2d stride = o.stride.value_or(o.kernel_size);
  check_windows("max_unpool2d", {o.kernel_size, stride, o.padding});
  const Shape& s = x.shape();
  const Size2d size = o.output_size.value_or(
      Size2d(unpooled(s[2], o.kernel_size.height, stride.height, o.padding.height),
             unpooled(s[3], o.kernel_size.width, stride.width, o.padding.width)));
  return detail::max_unpool("max_unpool2d", x, indices, {size.height, size.width}, where);
}

Variable max_unpool3d(const Variable& x, const Variable& indices, MaxUnpoolOptions<Size3d> o,
                      Where where) {
  if (is_unbatched(x, 3)) [[unlikely]]
    return as_batch(x, where, [&](const Variable& batch) {
      return max_unpool3d(batch, unsqueeze(indices, 0), o);
    });
  const ErrorLine line(where);
  check_volumes("max_unpool3d", x);
  const Size3d stride = o.stride.value_or(o.kernel_size);
  check_windows("max_unpool3d", {o.kernel_size.plane(), stride.plane(), o.padding.plane()});
  check_windows("max_unpool3d", {o.kernel_size.depth, stride.depth, o.padding.depth});
  const Shape& s = x.shape();
  const Size3d size = o.output_size.value_or(
      Size3d(unpooled(s[2], o.kernel_size.depth, stride.depth, o.padding.depth),
             unpooled(s[3], o.kernel_size.height, stride.height, o.padding.height),
             unpooled(s[4], o.kernel_size.width, stride.width, o.padding.width)));
  return detail::max_unpool("max_unpool3d", x, indices, {size.depth, size.height, size.width},
                            where);
}

Variable avg_pool1d(const Variable& x, AvgPool1dOptions options, Where where) {
  if (is_unbatched(x, 1)) [[unlikely]]
    return as_batch(x, where, [&](const Variable& batch) { return avg_pool1d(batch, options); });
  const CallLine line(where);
  check_signals("avg_pool1d", x);
  return squeeze(avg_pool2d(unsqueeze(x, 2), flat(options)), 2);
}

Variable avg_pool3d(const Variable& x, AvgPool3dOptions o, Where where) {
  if (is_unbatched(x, 3)) [[unlikely]]
    return as_batch(x, where, [&](const Variable& batch) { return avg_pool3d(batch, o); });
  const CallLine line(where);
  check_volumes("avg_pool3d", x);
  check_divisor("avg_pool3d", o.divisor_override);
  const WindowSplit kernel = split(o.kernel_size, 1), padding = split(o.padding, 0);
  const WindowSplit stride = split(o.stride.value_or(o.kernel_size), 1);
  if (is_integer(x.dtype())) [[unlikely]]
    return integer_means(x, windows_of(x.shape(), kernel, stride, padding, o.ceil_mode),
                         {o.count_include_pad, o.divisor_override});
  const auto pool = [&](const Variable& images, Size2d WindowSplit::*part) {
    AvgPool2dOptions options{.kernel_size = kernel.*part,
                             .stride = stride.*part,
                             .padding = padding.*part,
                             .ceil_mode = o.ceil_mode,
                             .count_include_pad = o.count_include_pad};
    // The sums within planes are divided, and then those across planes are only added.
    if (o.divisor_override)
      options.divisor_override = part == &WindowSplit::in_planes ? *o.divisor_override : 1;
    return avg_pool2d(images, options);
  };
  // Averages of averages would round sixteen-bit floats twice; float32 avoids this.
  return pool_volume(
             is_float(x.dtype()) ? x.to(wide_dtype(x.dtype())) : x,
             tiles_planes(x, kernel.in_planes, stride.in_planes, padding.in_planes),
             [&](const Variable& planes) { return pool(planes, &WindowSplit::in_planes); },
             [&](const Variable& rows) { return pool(rows, &WindowSplit::across); })
      .to(x.dtype());
}

Variable lp_pool1d(const Variable& x, LpPoolOptions<int64_t> o, Where where) {
  if (is_unbatched(x, 1)) [[unlikely]]
    return as_batch(x, where, [&](const Variable& batch) { return lp_pool1d(batch, o); });
  const CallLine line(where);
  check_signals("lp_pool1d", x);
  return squeeze(lp_pool2d(unsqueeze(x, 2), {.norm_type = o.norm_type,
                                             .kernel_size = {1, o.kernel_size},
                                             .stride = Size2d(1, o.stride.value_or(o.kernel_size)),
                                             .ceil_mode = o.ceil_mode}),
                 2);
}

/// Computes lp pooling from the means over windows of `count` elements each.
template <typename Size, typename Mean>
static Variable lp_pool(std::string_view op, const Variable& x, const LpPoolOptions<Size>& o,
                        double count, Mean mean) {
  if (!(o.norm_type > 0)) fail<ArgumentError>(op, ": norm_type must be positive: ", o.norm_type);
  const DType dtype = is_float(x.dtype()) ? x.dtype() : default_dtype();
  const Variable powers = pow(x.to(wide_dtype(dtype)), o.norm_type);
  const Variable means =
      mean(powers, AvgPoolOptions<Size>{
                       .kernel_size = o.kernel_size, .stride = o.stride, .ceil_mode = o.ceil_mode});
  const Variable sums = means * count;
  // relu() stops the infinite derivative of the root where a window is 0.
  return pow(sign(sums) * relu(abs(sums)), 1 / o.norm_type).to(dtype);
}

Variable lp_pool2d(const Variable& x, LpPoolOptions<Size2d> o, Where where) {
  if (is_unbatched(x, 2)) [[unlikely]]
    return as_batch(x, where, [&](const Variable& batch) { return lp_pool2d(batch, o); });
  const CallLine line(where);
  const double count = double(o.kernel_size.height) * double(o.kernel_size.width);
  return lp_pool("lp_pool2d", x, o, count,
                 [](const Variable& p, const AvgPool2dOptions& w) { return avg_pool2d(p, w); });
}

Variable lp_pool3d(const Variable& x, LpPoolOptions<Size3d> o, Where where) {
  if (is_unbatched(x, 3)) [[unlikely]]
    return as_batch(x, where, [&](const Variable& batch) { return lp_pool3d(batch, o); });
  const CallLine line(where);
  const Size3d k = o.kernel_size;
  return lp_pool("lp_pool3d", x, o, double(k.depth) * double(k.height) * double(k.width),
                 [](const Variable& p, const AvgPool3dOptions& w) { return avg_pool3d(p, w); });
}

Variable adaptive_avg_pool1d(const Variable& x, int64_t output_size, Where where) {
  if (is_unbatched(x, 1)) [[unlikely]]
    return as_batch(x, where,
                    [&](const Variable& batch) { return adaptive_avg_pool1d(batch, output_size); });
  const CallLine line(where);
  check_signals("adaptive_avg_pool1d", x);
  return squeeze(adaptive_avg_pool2d(unsqueeze(x, 2), {1, output_size}), 2);
}
Variable adaptive_max_pool1d(const Variable& x, int64_t output_size, Where where) {
  if (is_unbatched(x, 1)) [[unlikely]]
    return as_batch(x, where,
                    [&](const Variable& batch) { return adaptive_max_pool1d(batch, output_size); });
  const CallLine line(where);
  check_signals("adaptive_max_pool1d", x);
  return squeeze(adaptive_max_pool2d(unsqueeze(x, 2), {1, output_size}), 2);
}

Variable adaptive_avg_pool3d(const Variable& x, Size3d output_size, Where where) {
  if (is_unbatched(x, 3)) [[unlikely]]
    return as_batch(x, where,
                    [&](const Variable& batch) { return adaptive_avg_pool3d(batch, output_size); });
  const CallLine line(where);
  check_volumes("adaptive_avg_pool3d", x);
  if (output_size.depth == -1) output_size.depth = x.size(2);
  return pool_volume(
             is_float(x.dtype()) ? x.to(wide_dtype(x.dtype())) : x,
             /*tiled=*/false,
             [&](const Variable& planes) {
               return adaptive_avg_pool2d(planes, output_size.plane());
             },
             [&](const Variable& rows) {
               return adaptive_avg_pool2d(rows, {output_size.depth, rows.size(3)});
             })
      .to(x.dtype());
}
Variable adaptive_max_pool3d(const Variable& x, Size3d output_size, Where where) {
  if (is_unbatched(x, 3)) [[unlikely]]
    return as_batch(x, where,
                    [&](const Variable& batch) { return adaptive_max_pool3d(batch, output_size); });
  const CallLine line(where);
  check_volumes("adaptive_max_pool3d", x);
  if (output_size.depth == -1) output_size.depth = x.size(2);
  return pool_volume(
      x, /*tiled=*/false,
      [&](const Variable& planes) { return adaptive_max_pool2d(planes, output_size.plane()); },
      [&](const Variable& rows) {
        return adaptive_max_pool2d(rows, {output_size.depth, rows.size(3)});
      });
}

ValuesIndices adaptive_max_pool1d_with_indices(const Variable& x, int64_t output_size,
                                               Where where) {
  if (is_unbatched(x, 1)) [[unlikely]]
    return as_batch(x, where, [&](const Variable& batch) {
      return adaptive_max_pool1d_with_indices(batch, output_size);
    });
  const CallLine line(where);
  check_signals("adaptive_max_pool1d_with_indices", x);
  const ValuesIndices y = adaptive_max_pool2d_with_indices(unsqueeze(x, 2), {1, output_size});
  return {squeeze(y.values, 2), squeeze(y.indices, 2)};
}
ValuesIndices adaptive_max_pool3d_with_indices(const Variable& x, Size3d output_size, Where where) {
  if (is_unbatched(x, 3)) [[unlikely]]
    return as_batch(x, where, [&](const Variable& batch) {
      return adaptive_max_pool3d_with_indices(batch, output_size);
    });
  const CallLine line(where);
  check_volumes("adaptive_max_pool3d_with_indices", x);
  if (output_size.depth == -1) output_size.depth = x.size(2);
  return max_of_volume(
      x,
      [&](const Variable& planes) {
        return adaptive_max_pool2d_with_indices(planes, output_size.plane());
      },
      [&](const Variable& rows) {
        return adaptive_max_pool2d_with_indices(rows, {output_size.depth, rows.size(3)});
      });
}

namespace {

template <typename Size>
MaxUnpoolOptions<Size> unpool_options(const Arguments& a,
                                      Size (*size)(const Arguments&, std::string_view)) {
  return {.kernel_size = size(a, "kernel_size"),
          .stride = optional_size<Size>(a, "stride", size),
          .padding = size(a, "padding"),
          .output_size = optional_size<Size>(a, "output_size", size)};
}
template <typename Size>
LpPoolOptions<Size> lp_pool_options(const Arguments& a,
                                    Size (*size)(const Arguments&, std::string_view)) {
  return {.norm_type = a.real("norm_type"),
          .kernel_size = size(a, "kernel_size"),
          .stride = optional_size<Size>(a, "stride", size),
          .ceil_mode = a.flag("ceil_mode")};
}

void catalog_max_pools(Catalog& catalog) {
  constexpr std::string_view kUnpool =
      "(input, indices, kernel_size: ints, stride: ints = none, padding: ints = 0, "
      "output_size: ints = none)";
  using A = const Arguments&;
  catalog.add(named("max_pool1d", kMaxPool), "max_pool2d of signals",
              [](A a) { return max_pool1d(a[0], max_pool_options(a, size1d)); });
  catalog.add(named("max_pool3d", kMaxPool), "max_pool2d of volumes",
              [](A a) { return max_pool3d(a[0], max_pool_options(a, size3d)); });
  catalog.add(
      named("max_pool1d_with_indices", kMaxPool), "max_pool2d_with_indices of signals",
      [](A a) { return with_indices(max_pool1d_with_indices(a[0], max_pool_options(a, size1d))); });
  catalog.add(
      named("max_pool3d_with_indices", kMaxPool), "max_pool2d_with_indices of volumes",
      [](A a) { return with_indices(max_pool3d_with_indices(a[0], max_pool_options(a, size3d))); });
  catalog.add(named("max_unpool1d", kUnpool), "x at the indices, among zeros",
              [](A a) { return max_unpool1d(a[0], a[1], unpool_options(a, size1d)); });
  catalog.add(named("max_unpool2d", kUnpool), "x at the indices, among zeros",
              [](A a) { return max_unpool2d(a[0], a[1], unpool_options(a, size2d)); });
  catalog.add(named("max_unpool3d", kUnpool), "x at the indices, among zeros",
              [](A a) { return max_unpool3d(a[0], a[1], unpool_options(a, size3d)); });
}

}  // namespace

void catalog_pool_nd(Catalog& catalog) {
  constexpr std::string_view kLpPool =
      "(input, norm_type: float, kernel_size: ints, stride: ints = none, "
      "ceil_mode: bool = false)";
  constexpr std::string_view kAdaptive = "(input, output_size: ints)";
  using A = const Arguments&;
  catalog_max_pools(catalog);
  catalog.add(named("avg_pool1d", kAvgPool), "avg_pool2d of signals",
              [](A a) { return avg_pool1d(a[0], avg_pool_options(a, size1d)); });
  catalog.add(named("avg_pool3d", kAvgPool), "avg_pool2d of volumes",
              [](A a) { return avg_pool3d(a[0], avg_pool_options(a, size3d)); });
  catalog.add(named("lp_pool1d", kLpPool), "(sum of x^p)^(1/p) over each window",
              [](A a) { return lp_pool1d(a[0], lp_pool_options(a, size1d)); });
  catalog.add(named("lp_pool2d", kLpPool), "(sum of x^p)^(1/p) over each window",
              [](A a) { return lp_pool2d(a[0], lp_pool_options(a, size2d)); });
  catalog.add(named("lp_pool3d", kLpPool), "(sum of x^p)^(1/p) over each window",
              [](A a) { return lp_pool3d(a[0], lp_pool_options(a, size3d)); });
  catalog.add(named("adaptive_avg_pool1d", kAdaptive), "adaptive_avg_pool2d of signals",
              [](A a) { return adaptive_avg_pool1d(a[0], size1d(a, "output_size")); });
  catalog.add(named("adaptive_avg_pool3d", kAdaptive), "adaptive_avg_pool2d of volumes",
              [](A a) { return adaptive_avg_pool3d(a[0], size3d(a, "output_size")); });
  catalog.add(named("adaptive_max_pool1d", kAdaptive), "adaptive_max_pool2d of signals",
              [](A a) { return adaptive_max_pool1d(a[0], size1d(a, "output_size")); });
  catalog.add(
      named("adaptive_max_pool1d_with_indices", kAdaptive),
      "adaptive_max_pool2d_with_indices of signals", [](A a) {
        return with_indices(adaptive_max_pool1d_with_indices(a[0], size1d(a, "output_size")));
      });
  catalog.add(
      named("adaptive_max_pool3d_with_indices", kAdaptive),
      "adaptive_max_pool2d_with_indices of volumes", [](A a) {
        return with_indices(adaptive_max_pool3d_with_indices(a[0], size3d(a, "output_size")));
      });
  catalog.add(named("adaptive_max_pool3d", kAdaptive), "adaptive_max_pool2d of volumes",
              [](A a) { return adaptive_max_pool3d(a[0], size3d(a, "output_size")); });
}

}  // namespace tapegrad
