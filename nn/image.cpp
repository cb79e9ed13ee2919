#include "nn/image.h"

#include <algorithm>

#include "core/tape/internal/call_line.h"
#include "nn/conv.h"

namespace tapegrad::nn {
namespace {

/// Returns the options of a layer that resizes. Throws ArgumentError unless they give a size or a
/// factor.
const InterpolateOptions& checked(std::string_view layer, const InterpolateOptions& options) {
  const ErrorLine line(options.by_name.where);
  if (options.size.empty() == options.scale_factor.empty())
    fail<ArgumentError>(layer, ": give one of the options .size and .scale_factor");
  for (const int64_t size : options.size) require_from(layer, ".size", size, 1);
  for (const double factor : options.scale_factor) require_positive(layer, ".scale_factor", factor);
  return options;
}

void check_windows(std::string_view layer, const UnfoldOptions& o) {
  require_windows(
      layer, {numbers(o.kernel_size), numbers(o.stride), numbers(o.padding), numbers(o.dilation)},
      o.by_name.where);
}

InterpolateOptions with_mode(InterpolateOptions options, SampleMode mode) {
  options.mode = mode;
  options.align_corners = mode != SampleMode::kNearest;
  return options;
}

}  // namespace

Padding::Padding(int64_t all, Where where) : amounts{all}, where(where) {}
Padding::Padding(std::initializer_list<int64_t> amounts, Where where)
    : amounts(amounts), where(where) {}
std::vector<int64_t> Padding::of_dims(int dims) const {
  const size_t count = 2 * size_t(dims);
  if (amounts.size() == 1) return std::vector<int64_t>(count, amounts[0]);
  if (amounts.size() != count)
    fail_at<ArgumentError>(where, "padding: ", count, " amounts are wanted, not ", amounts.size());
  return amounts;
}

Upsample::Upsample(InterpolateOptions options) : Function(checked("Upsample", options)) {}
UpsamplingNearest2d::UpsamplingNearest2d(InterpolateOptions options)
    : Function(with_mode(checked("UpsamplingNearest2d", options), SampleMode::kNearest)) {}
UpsamplingBilinear2d::UpsamplingBilinear2d(InterpolateOptions options)
    : Function(with_mode(checked("UpsamplingBilinear2d", options), SampleMode::kBilinear)) {}
PixelShuffle::PixelShuffle(int64_t upscale_factor, Where where) : Function(upscale_factor) {
  require_from(kind(), "upscale_factor", upscale_factor, 1, where);
}
PixelUnshuffle::PixelUnshuffle(int64_t downscale_factor, Where where) : Function(downscale_factor) {
  require_from(kind(), "downscale_factor", downscale_factor, 1, where);
}
ChannelShuffle::ChannelShuffle(int64_t groups, Where where) : Function(groups) {
  require_from(kind(), "groups", groups, 1, where);
}
Unfold::Unfold(UnfoldOptions options) : with(options) { check_windows(kind(), options); }
Fold::Fold(Size2d output_size, UnfoldOptions options) : Function(output_size, options) {
  const ErrorLine line(options.by_name.where);
  require_from(kind(), "output_size", std::min(output_size.height, output_size.width), 1);
  check_windows(kind(), options);
}
ConstantPad1d::ConstantPad1d(Padding padding, double value) : Pad(std::move(padding), value) {}
ConstantPad2d::ConstantPad2d(Padding padding, double value) : Pad(std::move(padding), value) {}
ConstantPad3d::ConstantPad3d(Padding padding, double value) : Pad(std::move(padding), value) {}
ZeroPad1d::ZeroPad1d(Padding padding) : Pad(std::move(padding)) {}
ZeroPad2d::ZeroPad2d(Padding padding) : Pad(std::move(padding)) {}
ZeroPad3d::ZeroPad3d(Padding padding) : Pad(std::move(padding)) {}
ReflectionPad1d::ReflectionPad1d(Padding padding) : Pad(std::move(padding)) {}
ReflectionPad2d::ReflectionPad2d(Padding padding) : Pad(std::move(padding)) {}
ReflectionPad3d::ReflectionPad3d(Padding padding) : Pad(std::move(padding)) {}
CircularPad1d::CircularPad1d(Padding padding) : Pad(std::move(padding)) {}
CircularPad2d::CircularPad2d(Padding padding) : Pad(std::move(padding)) {}
CircularPad3d::CircularPad3d(Padding padding) : Pad(std::move(padding)) {}
ReplicationPad1d::ReplicationPad1d(Padding padding) : Pad(std::move(padding)) {}
ReplicationPad2d::ReplicationPad2d(Padding padding) : Pad(std::move(padding)) {}
ReplicationPad3d::ReplicationPad3d(Padding padding) : Pad(std::move(padding)) {}
CosineSimilarity::CosineSimilarity(int dim, double eps, Where where) : Function2(dim, eps) {
  require_not_negative(kind(), "eps", eps, where);
}
PairwiseDistance::PairwiseDistance(double p, double eps, bool keepdim)
    : Function2(p, eps, keepdim) {}

Unfold::Unfold(Size2d kernel_size, Size2d dilation, Size2d padding, Size2d stride, Where where)
    : Unfold(UnfoldOptions{{where}, kernel_size, dilation, padding, stride}) {}
Unfold::Unfold(Size2d kernel_size, UnfoldOptions options)
    : Unfold((options.kernel_size = kernel_size, options)) {}
Variable Unfold::forward(const Variable& x, Where where) const { return unfold(x, with, where); }
CosineSimilarity::CosineSimilarity(CosineSimilarityOptions options)
    : CosineSimilarity(options.dim, options.eps, options.by_name.where) {}
PairwiseDistance::PairwiseDistance(PairwiseDistanceOptions options)
    : PairwiseDistance(options.p, options.eps, options.keepdim) {}
Fold::Fold(Size2d output_size, Size2d kernel_size, Size2d dilation, Size2d padding, Size2d stride,
           Where where)
    : Fold(output_size, UnfoldOptions{{where}, kernel_size, dilation, padding, stride}) {}
Fold::Fold(Size2d output_size, Size2d kernel_size, UnfoldOptions options)
    : Fold(output_size, (options.kernel_size = kernel_size, options)) {}
}  // namespace tapegrad::nn
