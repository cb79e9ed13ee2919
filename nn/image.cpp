#include "nn/image.h"

namespace tapegrad::nn {
namespace {

InterpolateOptions with_mode(InterpolateOptions options, SampleMode mode) {
  options.mode = mode;
  options.align_corners = mode != SampleMode::kNearest;
  return options;
}

}  // namespace

Padding::Padding(int64_t all) : amounts{all} {}
Padding::Padding(std::initializer_list<int64_t> amounts) : amounts(amounts) {}
std::vector<int64_t> Padding::of_dims(int dims) const {
  const size_t count = 2 * size_t(dims);
  if (amounts.size() == 1) return std::vector<int64_t>(count, amounts[0]);
  if (amounts.size() != count)
    fail<ArgumentError>("padding: ", count, " amounts are wanted, not ", amounts.size());
  return amounts;
}

Upsample::Upsample(InterpolateOptions options) : Function(std::move(options)) {}
UpsamplingNearest2d::UpsamplingNearest2d(InterpolateOptions options)
    : Function(with_mode(std::move(options), SampleMode::kNearest)) {}
UpsamplingBilinear2d::UpsamplingBilinear2d(InterpolateOptions options)
    : Function(with_mode(std::move(options), SampleMode::kLinear)) {}
PixelShuffle::PixelShuffle(int64_t upscale_factor) : Function(upscale_factor) {}
PixelUnshuffle::PixelUnshuffle(int64_t downscale_factor) : Function(downscale_factor) {}
ChannelShuffle::ChannelShuffle(int64_t groups) : Function(groups) {}
Unfold::Unfold(UnfoldOptions options) : with(options) {}
Fold::Fold(Size2d output_size, UnfoldOptions options) : Function(output_size, options) {}
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
CosineSimilarity::CosineSimilarity(int dim, double eps) : Function2(dim, eps) {}
PairwiseDistance::PairwiseDistance(double p, double eps, bool keepdim)
    : Function2(p, eps, keepdim) {}

}  // namespace tapegrad::nn
