#include "ops/image.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/internal/step_constant.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/op.h"
#include "core/tape/view.h"
#include "ops/catalog.h"
#include "ops/index.h"
#include "ops/internal/kernels/pad.h"
#include "ops/internal/limits.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

/// Views [..., c, h, w] as [n, c, h, w].
struct ImageSizes {
  int64_t n = 1, c, h, w;

  ImageSizes(std::string_view op, const Shape& x, int64_t factor) {
    const int r = x.rank();
    if (r < 3) fail<ShapeError>(op, ": [..., channels, height, width] wanted: ", x);
    detail::require_count(op, "the factor", factor);
    for (int i = 0; i < r - 3; ++i) n *= x[i];
    c = x[r - 3], h = x[r - 2], w = x[r - 1];
  }
};

Shape with_images(Shape shape, int64_t c, int64_t h, int64_t w) {
  const int r = shape.rank();
  shape[r - 3] = c, shape[r - 2] = h, shape[r - 1] = w;
  return shape;
}

PadSource padded(int64_t size, int64_t before, int64_t after, PadMode mode, int dim,
                 const Shape& shape) {
  const bool cropped_too_far = (before < 0 && before < -size) || (after < 0 && after < -size);
  PadSource source{.size = size, .before = before, .mode = mode};
  source.first = cropped_too_far ? 0 : std::max(-before, int64_t(0));
  source.kept = cropped_too_far ? 0 : size - source.first + std::min(after, int64_t(0));
  const int64_t least = mode == PadMode::kReflect ? 1 : 0, most = std::max(before, after);
  const bool fits = mode == PadMode::kReplicate  ? most <= 0 || size > 0
                    : mode == PadMode::kCircular ? most <= 0 || most <= source.kept
                                                 : most <= size - least;
  if (cropped_too_far || !fits || __builtin_add_overflow(size, before, &source.count) ||
      __builtin_add_overflow(source.count, after, &source.count) || source.count < 0)
    fail<ShapeError>("pad: dim ", dim, " of ", shape, " cannot take ", before, " before and ",
                     after, " after");
  return source;
}
Tensor indices(const PadSource& source) {
  const Tensor from = Tensor::empty({source.count}, i64);
  for (int64_t i = 0; i < source.count; ++i) from.data<int64_t>()[i] = source(i);
  return from;
}

/// The adjoint of PadFrom.
struct PadFromBackward {
  static constexpr std::string_view kName = "pad_backward";
  PadSources from;

  Tensor forward(const Tensor& dy) {
    Shape shape;
    for (const PadSource& along : from) shape.push_back(along.size);
    Tensor dx = dy.empty_like(shape);
    kernels::pad_from_backward(dy, from, dx);
    return dx;
  }
  Variable backward(const Variable& ddx) const;
};

/// Copies the elements of x to their places in y.
struct PadFrom {
  static constexpr std::string_view kName = "pad";
  PadSources from;

  Tensor forward(const Tensor& x) {
    Shape shape;
    for (const PadSource& along : from) shape.push_back(along.count);
    Tensor y = x.empty_like(shape);
    kernels::pad_from(x, from, y);
    return y;
  }
  Variable backward(const Variable& dy) const {
    return apply(PadFromBackward{from}, Where::current(), dy);
  }
};

Variable PadFromBackward::backward(const Variable& ddx) const {
  return apply(PadFrom{from}, Where::current(), ddx);
}

}  // namespace

Variable pixel_shuffle(const Variable& x, int64_t upscale_factor, Where where) {
  const CallLine line(where);
  const int64_t r = upscale_factor;
  const ImageSizes in("pixel_shuffle", x.shape(), r);
  if (in.c % (r * r) != 0)
    fail<ShapeError>("pixel_shuffle: ", r, "^2 does not divide the channels of ", x.shape());
  const int64_t c = in.c / (r * r);
  const Variable parts = reshape(x, {in.n, c, r, r, in.h, in.w});
  return reshape(permute(parts, {0, 1, 4, 2, 5, 3}), with_images(x.shape(), c, in.h * r, in.w * r));
}

Variable pixel_unshuffle(const Variable& x, int64_t downscale_factor, Where where) {
  const CallLine line(where);
  const int64_t r = downscale_factor;
  const ImageSizes in("pixel_unshuffle", x.shape(), r);
  if (in.h % r != 0 || in.w % r != 0)
    fail<ShapeError>("pixel_unshuffle: ", r, " does not divide height and width of ", x.shape());
  const Variable parts = reshape(x, {in.n, in.c, in.h / r, r, in.w / r, r});
  return reshape(permute(parts, {0, 1, 3, 5, 2, 4}),
                 with_images(x.shape(), in.c * r * r, in.h / r, in.w / r));
}

Variable channel_shuffle(const Variable& x, int64_t groups, Where where) {
  const CallLine line(where);
  if (x.rank() < 2)
    fail<ShapeError>("channel_shuffle: channels are dimension 1, shape is ", x.shape());
  const int64_t channels = x.shape()[1];
  if (groups < 1 || channels % groups != 0)
    fail<ArgumentError>("channel_shuffle: ", groups, " groups do not divide ", channels,
                        " channels");
  int64_t size = 1;
  for (int i = 2; i < x.rank(); ++i) size *= x.shape()[i];
  const Variable parts = reshape(x, {x.shape()[0], groups, channels / groups, size});
  return reshape(transpose(parts, 1, 2), x.shape());
}

Variable pad(const Variable& x, const std::vector<int64_t>& amounts, Choice<PadMode> mode,
             double value, Where where) {
  const CallLine line(where);
  if (mode == PadMode::kConstant) return pad(x, amounts, value, where);
  if (amounts.size() % 2 != 0 || int64_t(amounts.size() / 2) > x.rank())
    fail<ArgumentError>("pad: ", amounts.size(), " amounts are not two for each of at most ",
                        x.rank(), " dimensions");
  PadSources from;
  for (const int64_t size : x.shape()) from.push_back({.size = size, .count = size});
  bool changes = false;
  for (size_t i = 0; i < amounts.size(); i += 2) {  // all are checked before anything is computed
    const int dim = x.rank() - 1 - int(i / 2);
    if (amounts[i] == 0 && amounts[i + 1] == 0) continue;
    from[size_t(dim)] = padded(x.shape()[dim], amounts[i], amounts[i + 1], mode, dim, x.shape());
    changes = true;
  }
  if (!changes) return clone(x);
  const bool empty =
      std::ranges::any_of(from, [](const PadSource& d) { return d.size == 0 || d.count == 0; });
  Tensor none;
  if (!empty && kernels::pad_from.accepts(x.value(), from, none))
    return apply(PadFrom{std::move(from)}, where, x);
  Variable y = x;
  for (int dim = x.rank() - 1; dim >= 0; --dim)
    if (!from[size_t(dim)].is_identity()) {
      const Tensor index = detail::step_constant([&] { return indices(from[size_t(dim)]); });
      y = index_select(y, dim, Variable(index.to(x.device())));
    }
  return y;
}

void catalog_image(Catalog& catalog) {
  catalog.add("pixel_shuffle(input, upscale_factor: int)", "[c r^2, h, w] -> [c, h r, w r]",
              [](const Arguments& a) { return pixel_shuffle(a[0], a.integer("upscale_factor")); });
  catalog.add(
      "pixel_unshuffle(input, downscale_factor: int)", "[c, h r, w r] -> [c r^2, h, w]",
      [](const Arguments& a) { return pixel_unshuffle(a[0], a.integer("downscale_factor")); });
  catalog.add("channel_shuffle(input, groups: int)", "channel i of group g to channel g of group i",
              [](const Arguments& a) { return channel_shuffle(a[0], a.integer("groups")); });
}

Variable pad(const Variable& x, const std::vector<int64_t>& amounts, PadOptions options,
             Where where) {
  return pad(x, amounts, options.mode, options.value, where);
}
}  // namespace tapegrad
