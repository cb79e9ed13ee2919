#include "ops/image.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/internal/step_constant.h"
#include "core/tape/internal/call_line.h"
#include "core/tape/view.h"
#include "ops/catalog.h"
#include "ops/index.h"
#include "ops/internal/limits.h"
#include "ops/view.h"

namespace tapegrad {
namespace {

/// Views [..., c, h, w] as [n, c, h, w].
struct Images {
  int64_t n = 1, c, h, w;

  Images(std::string_view op, const Shape& x, int64_t factor) {
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

/// The source index of each padded element along a dimension.
Tensor sources(int64_t size, int64_t before, int64_t after, PadMode mode, int dim,
               const Shape& shape) {
  const bool cropped_too_far = (before < 0 && before < -size) || (after < 0 && after < -size);
  // The part of x that remains where amounts are negative; only kCircular continues it.
  const int64_t first = cropped_too_far ? 0 : std::max(-before, int64_t(0));
  const int64_t kept = cropped_too_far ? 0 : size - first + std::min(after, int64_t(0));
  const int64_t least = mode == PadMode::kReflect ? 1 : 0, most = std::max(before, after);
  const bool fits = mode == PadMode::kReplicate  ? most <= 0 || size > 0
                    : mode == PadMode::kCircular ? most <= 0 || most <= kept
                                                 : most <= size - least;
  int64_t count = 0;
  if (cropped_too_far || !fits || __builtin_add_overflow(size, before, &count) ||
      __builtin_add_overflow(count, after, &count) || count < 0)
    fail<ShapeError>("pad: dim ", dim, " of ", shape, " cannot take ", before, " before and ",
                     after, " after");
  const Tensor from = Tensor::empty({count}, i64);
  int64_t* to = from.data<int64_t>();
  for (int64_t i = -before; i < count - before; ++i, ++to) {
    if (i >= 0 && i < size)
      *to = i;
    else if (mode == PadMode::kReflect)
      *to = i < 0 ? -i : 2 * (size - 1) - i;
    else if (mode == PadMode::kCircular)
      *to = i < first ? i + kept : i - kept;
    else
      *to = i < 0 ? 0 : size - 1;
  }
  return from;
}

}  // namespace

Variable pixel_shuffle(const Variable& x, int64_t upscale_factor, Where where) {
  const CallLine line(where);
  const int64_t r = upscale_factor;
  const Images in("pixel_shuffle", x.shape(), r);
  if (in.c % (r * r) != 0)
    fail<ShapeError>("pixel_shuffle: ", r, "^2 does not divide the channels of ", x.shape());
  const int64_t c = in.c / (r * r);
  const Variable parts = reshape(x, {in.n, c, r, r, in.h, in.w});
  return reshape(permute(parts, {0, 1, 4, 2, 5, 3}), with_images(x.shape(), c, in.h * r, in.w * r));
}

Variable pixel_unshuffle(const Variable& x, int64_t downscale_factor, Where where) {
  const CallLine line(where);
  const int64_t r = downscale_factor;
  const Images in("pixel_unshuffle", x.shape(), r);
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
  std::vector<std::pair<int, Tensor>> indices;  // all are checked before anything is computed
  for (size_t i = 0; i < amounts.size(); i += 2) {
    const int dim = x.rank() - 1 - int(i / 2);
    if (amounts[i] != 0 || amounts[i + 1] != 0)
      indices.emplace_back(dim, detail::step_constant([&] {
                             return sources(x.shape()[dim], amounts[i], amounts[i + 1], mode, dim,
                                            x.shape());
                           }));
  }
  Variable y = x;
  for (const auto& [dim, from] : indices) y = index_select(y, dim, Variable(from.to(x.device())));
  return y.is_same(x) ? clone(x) : y;
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

}  // namespace tapegrad
