#include "ops/pool_composed.h"

#include <array>

#include "core/tape/internal/call_line.h"
#include "core/tape/recording.h"
#include "ops/binary.h"
#include "ops/create.h"
#include "ops/extremes.h"
#include "ops/index.h"
#include "ops/internal/extent.h"
#include "ops/internal/operands.h"
#include "ops/internal/pool_parts.h"
#include "ops/internal/unbatched.h"
#include "ops/random.h"
#include "ops/unary.h"
#include "ops/view.h"

namespace tapegrad {

using namespace detail;

namespace {

template <size_t n>
using Sizes = std::array<int64_t, n>;

Sizes<2> sizes_of(Size2d size) { return {size.height, size.width}; }
Sizes<3> sizes_of(Size3d size) { return {size.depth, size.height, size.width}; }

/// Returns the starts of the windows along one dimension, [batch, channels, out], from a random
/// number of each plane.
Variable window_starts(const Variable& sample, int64_t in, int64_t out, int64_t kernel) {
  const Variable u = unsqueeze(sample, 2);
  const Variable step = arange(out, {.dtype = u.dtype(), .device = u.device()});
  const double last = double(in - kernel), gap = out > 1 ? last / double(out - 1) : 0;
  return where(step == double(out - 1), last, floor((step + u) * gap) - floor(u * gap)).to(i64);
}

/// Returns the output size of the options for planes or volumes of the size `in`.
template <size_t n, typename Size>
Sizes<n> output_size(std::string_view op, const FractionalMaxPoolOptions<Size>& o,
                     const Sizes<n>& in) {
  const ScaleFactors& ratio = o.output_ratio;
  if (o.output_size.has_value() != ratio.empty())
    fail<ArgumentError>(op, ": give either .output_size or .output_ratio");
  if (o.output_size) return sizes_of(*o.output_size);
  if (ratio.size() != 1 && ratio.size() != n)
    fail<ArgumentError>(op, ": ", ratio.size(), " numbers of .output_ratio, not 1 or ", n);
  Sizes<n> out;
  for (size_t i = 0; i < n; ++i) {
    const double share = ratio[ratio.size() == 1 ? 0 : i];
    if (!(share > 0 && share < 1))
      fail<ArgumentError>(op, ": .output_ratio is ", share, ", not in (0, 1)");
    out[i] = int64_t(double(in[i]) * share);
  }
  return out;
}

/// Returns the random numbers of the planes: those of the options, or new ones.
Variable samples_of(std::string_view op, const Variable& x, const Variable& given, int64_t n) {
  const Shape shape{x.size(0), x.size(1), n};
  const TensorOptions like{.dtype = x.dtype() == f64 ? f64 : f32, .device = x.device()};
  if (!given.defined()) return rand(shape, like);
  check_same_device(op, x.value(), given.value());
  if (given.shape() != shape)
    fail<ShapeError>(op, ": _random_samples is ", given.shape(), ", not ", shape);
  return given.detach().to(*like.dtype);
}

/// Returns the positions of the maxima of all windows, [batch, channels, windows].
template <size_t n>
Variable largest_places(const Variable& x, const Sizes<n>& in, const Sizes<n>& out,
                        const Sizes<n>& kernel, const Variable& samples) {
  const NoGrad no_grad;
  const TensorOptions whole{.dtype = i64, .device = x.device()};
  Variable starts = zeros({1, 1, 1}, whole), offsets = zeros({1}, whole);
  for (size_t i = 0; i < n; ++i) {
    const Variable sample = select(samples, 2, n == 2 ? 1 - int(i) : int(i));
    const Variable first = window_starts(sample, in[i], out[i], kernel[i]);
    starts = flatten(unsqueeze(starts * in[i], 3) + unsqueeze(first, 2), 2);
    offsets = flatten(unsqueeze(offsets * in[i], 1) + arange(kernel[i], whole));
  }
  const Variable places = unsqueeze(starts, 3) + offsets;  // [batch, channels, windows, elements]
  const Variable values =
      reshape(gather(flatten(x.detach(), 2), 2, flatten(places, 2)), places.shape());
  return squeeze(gather(places, 3, argmax(values, 3, true)), 3);
}

template <size_t n, typename Size>
ValuesIndices pool(std::string_view op, const Variable& x,
                   const FractionalMaxPoolOptions<Size>& options, Where where) {
  if (is_unbatched(x, int(n))) [[unlikely]]
    return as_batch(x, where,
                    [&](const Variable& batch) { return pool<n>(op, batch, options, where); });
  const CallLine line(where);
  require_float(op, x.value());
  if (x.rank() != int(n) + 2)
    fail<ShapeError>(op, ": an input of ", n + 2, " dimensions wanted, or ", n + 1,
                     " without the batch: ", x.shape());
  Sizes<n> in;
  for (size_t i = 0; i < n; ++i) in[i] = x.size(int(i) + 2);
  const Sizes<n> kernel = sizes_of(options.kernel_size), out = output_size<n>(op, options, in);
  Shape shape{x.size(0), x.size(1)};
  for (size_t i = 0; i < n; ++i) {
    if (kernel[i] < 1 || out[i] < 1 || kernel[i] > in[i] || out[i] - 1 > in[i] - kernel[i])
      fail<ShapeError>(op, ": ", out[i], " windows of ", kernel[i], " do not fit in dimension ",
                       i + 2, " of ", x.shape(), ": kernel_size + output_size - 1 is at most ",
                       in[i]);
    shape.push_back(out[i]);
  }
  const Variable samples = samples_of(op, x, options._random_samples, int64_t(n));
  const Variable places = largest_places<n>(x, in, out, kernel, samples);
  return {reshape(gather(flatten(x, 2), 2, places), shape), reshape(places, shape)};
}

/// Returns the numbers of elements in windows of `size` elements.
Variable counts_of(const PooledDim& dim, int64_t size, bool with_padding) {
  const int64_t padding = with_padding ? dim.padding : 0;
  std::vector<int64_t> counts(size_t(dim.count));
  for (int64_t i = 0; i < dim.count; ++i) {
    const int64_t start = i * dim.stride - dim.padding;
    counts[size_t(i)] = std::min(start + dim.kernel, size + padding) - std::max(start, -padding);
  }
  return tensor(counts);
}

}  // namespace

Variable detail::integer_means(const Variable& x, const std::vector<PooledDim>& dims,
                               const DivisorOptions& options) {
  const int first = x.rank() - int(dims.size());
  std::vector<int64_t> around;
  Variable counts = scalar(int64_t(1));
  for (int i = int(dims.size()) - 1; i >= 0; --i) {
    const auto& [kernel, stride, padding, count] = dims[size_t(i)];
    const int64_t size = x.size(first + i);
    around.push_back(padding);
    around.push_back(std::max(padding, (count - 1) * stride + kernel - size - padding));
    Variable along = counts_of(dims[size_t(i)], size, options.count_include_pad);
    for (int k = i + 1; k < int(dims.size()); ++k) along = unsqueeze(along, 1);
    counts = along * counts;
  }
  Variable windows = pad(x, around);
  Dims within;
  for (int i = 0; i < int(dims.size()); ++i) {
    within.push_back(windows.rank());
    windows = windows.unfold(first + i, dims[size_t(i)].kernel, dims[size_t(i)].stride);
  }
  if (options.divisor_override) counts = scalar(*options.divisor_override);
  return div(sum(windows, within), counts.to(x.device()), "trunc").to(x.dtype());
}

ValuesIndices fractional_max_pool2d_with_indices(const Variable& x,
                                                 FractionalMaxPoolOptions<Size2d> options,
                                                 Where where) {
  return pool<2>("fractional_max_pool2d", x, options, where);
}
ValuesIndices fractional_max_pool3d_with_indices(const Variable& x,
                                                 FractionalMaxPoolOptions<Size3d> options,
                                                 Where where) {
  return pool<3>("fractional_max_pool3d", x, options, where);
}
Variable fractional_max_pool2d(const Variable& x, FractionalMaxPoolOptions<Size2d> options,
                               Where where) {
  return fractional_max_pool2d_with_indices(x, options, where).values;
}
Variable fractional_max_pool3d(const Variable& x, FractionalMaxPoolOptions<Size3d> options,
                               Where where) {
  return fractional_max_pool3d_with_indices(x, options, where).values;
}

Variable fractional_max_pool2d(const Variable& x, Size2d kernel_size,
                               FractionalMaxPoolOptions<Size2d> options, Where where) {
  options.kernel_size = kernel_size;
  return fractional_max_pool2d(x, options, where);
}
Variable fractional_max_pool3d(const Variable& x, Size3d kernel_size,
                               FractionalMaxPoolOptions<Size3d> options, Where where) {
  options.kernel_size = kernel_size;
  return fractional_max_pool3d(x, options, where);
}
}  // namespace tapegrad
