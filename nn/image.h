// Layers that resize, rearrange and pad images and other signals. The formulas are in ops/image.h,
// ops/resample.h and ops/conv.h.
#pragma once

#include "nn/function_layer.h"
#include "ops/conv.h"
#include "ops/image.h"
#include "ops/named_options.h"
#include "ops/resample.h"

namespace tapegrad::nn {

namespace detail {
inline constexpr Variable (*kInterpolate)(const Variable&, InterpolateOptions,
                                          Where) = tapegrad::interpolate;
}
/// Resizes [n, c, ...] with one to three spatial dimensions, to a size or by a factor.
struct Upsample final : Function<Upsample, detail::kInterpolate, InterpolateOptions> {
  explicit Upsample(InterpolateOptions options);
  /// Takes the size by position, as in PyTorch: Upsample({9, 7}), Upsample(9).
  template <std::convertible_to<OutputSize> S = OutputSize>
  explicit Upsample(const S& size) : Upsample(InterpolateOptions{.size = size}) {}
};
/// Upsample with mode "nearest", and with "bilinear" and align_corners, to a size or by a factor.
struct UpsamplingNearest2d final
    : Function<UpsamplingNearest2d, detail::kInterpolate, InterpolateOptions> {
  explicit UpsamplingNearest2d(InterpolateOptions options);
  template <std::convertible_to<OutputSize> S = OutputSize>
  explicit UpsamplingNearest2d(const S& size)
      : UpsamplingNearest2d(InterpolateOptions{.size = size}) {}
};
struct UpsamplingBilinear2d final
    : Function<UpsamplingBilinear2d, detail::kInterpolate, InterpolateOptions> {
  explicit UpsamplingBilinear2d(InterpolateOptions options);
  template <std::convertible_to<OutputSize> S = OutputSize>
  explicit UpsamplingBilinear2d(const S& size)
      : UpsamplingBilinear2d(InterpolateOptions{.size = size}) {}
};

struct PixelShuffle final : Function<PixelShuffle, pixel_shuffle, int64_t> {
  explicit PixelShuffle(int64_t upscale_factor, Where where = Where::current());
};
struct PixelUnshuffle final : Function<PixelUnshuffle, pixel_unshuffle, int64_t> {
  explicit PixelUnshuffle(int64_t downscale_factor, Where where = Where::current());
};
struct ChannelShuffle final : Function<ChannelShuffle, channel_shuffle, int64_t> {
  explicit ChannelShuffle(int64_t groups, Where where = Where::current());
};

/// Extracts patches as columns (im2col). Fold is the adjoint.
struct Unfold final : Stateless<Unfold> {
  UnfoldOptions with;
  explicit Unfold(UnfoldOptions options);
  explicit Unfold(Size2d kernel_size, Size2d dilation = 1, Size2d padding = 0, Size2d stride = 1,
                  Where where = Where::current());
  Unfold(Size2d kernel_size, UnfoldOptions options);
  Variable forward(const Variable& x, Where where = Where::current()) const;
};
using FoldOp = Variable (*)(const Variable&, Size2d, UnfoldOptions, Where);
struct Fold final : Function<Fold, static_cast<FoldOp>(fold), Size2d, UnfoldOptions> {
  Fold(Size2d output_size, UnfoldOptions options);
  Fold(Size2d output_size, Size2d kernel_size, Size2d dilation = 1, Size2d padding = 0,
       Size2d stride = 1, Where where = Where::current());
  Fold(Size2d output_size, Size2d kernel_size, UnfoldOptions options);
};

/// Amount of padding on each side: one number for all sides, or pairs (before, after) starting with
/// the last dimension. A negative amount crops.
struct Padding {
  std::vector<int64_t> amounts;
  Where where;
  Padding(int64_t all, Where where = Where::current());
  Padding(std::initializer_list<int64_t> amounts, Where where = Where::current());
  /// Returns a pair for each dimension. Throws ArgumentError for a wrong number of amounts.
  std::vector<int64_t> of_dims(int dims) const;
};

/// Pads the last `dims` dimensions of [n, c, ...].
template <typename Self, int dims, PadMode mode>
class Pad : public Stateless<Self> {
 public:
  explicit Pad(Padding padding, double value = 0.0)
      : amounts_(padding.of_dims(dims)), value_(value) {}
  Variable forward(const Variable& x, Where where = Where::current()) const {
    return pad(x, amounts_, mode, value_, where);
  }

 private:
  std::vector<int64_t> amounts_;
  double value_;
};

struct ConstantPad1d final : Pad<ConstantPad1d, 1, PadMode::kConstant> {
  ConstantPad1d(Padding padding, double value);
};
struct ConstantPad2d final : Pad<ConstantPad2d, 2, PadMode::kConstant> {
  ConstantPad2d(Padding padding, double value);
};
struct ConstantPad3d final : Pad<ConstantPad3d, 3, PadMode::kConstant> {
  ConstantPad3d(Padding padding, double value);
};
struct ZeroPad1d final : Pad<ZeroPad1d, 1, PadMode::kConstant> {
  explicit ZeroPad1d(Padding padding);
};
struct ZeroPad2d final : Pad<ZeroPad2d, 2, PadMode::kConstant> {
  explicit ZeroPad2d(Padding padding);
};
struct ZeroPad3d final : Pad<ZeroPad3d, 3, PadMode::kConstant> {
  explicit ZeroPad3d(Padding padding);
};
struct ReflectionPad1d final : Pad<ReflectionPad1d, 1, PadMode::kReflect> {
  explicit ReflectionPad1d(Padding padding);
};
struct ReflectionPad2d final : Pad<ReflectionPad2d, 2, PadMode::kReflect> {
  explicit ReflectionPad2d(Padding padding);
};
struct ReflectionPad3d final : Pad<ReflectionPad3d, 3, PadMode::kReflect> {
  explicit ReflectionPad3d(Padding padding);
};
struct CircularPad1d final : Pad<CircularPad1d, 1, PadMode::kCircular> {
  explicit CircularPad1d(Padding padding);
};
struct CircularPad2d final : Pad<CircularPad2d, 2, PadMode::kCircular> {
  explicit CircularPad2d(Padding padding);
};
struct CircularPad3d final : Pad<CircularPad3d, 3, PadMode::kCircular> {
  explicit CircularPad3d(Padding padding);
};
struct ReplicationPad1d final : Pad<ReplicationPad1d, 1, PadMode::kReplicate> {
  explicit ReplicationPad1d(Padding padding);
};
struct ReplicationPad2d final : Pad<ReplicationPad2d, 2, PadMode::kReplicate> {
  explicit ReplicationPad2d(Padding padding);
};
struct ReplicationPad3d final : Pad<ReplicationPad3d, 3, PadMode::kReplicate> {
  explicit ReplicationPad3d(Padding padding);
};

using tapegrad::CosineSimilarityOptions, tapegrad::PairwiseDistanceOptions;
using SimilarityOp = Variable (*)(const Variable&, const Variable&, int, double, Where);
using DistanceOp = Variable (*)(const Variable&, const Variable&, double, double, bool, Where);
struct CosineSimilarity final
    : Function2<CosineSimilarity, static_cast<SimilarityOp>(cosine_similarity), int, double> {
  explicit CosineSimilarity(int dim = 1, double eps = 1e-8, Where where = Where::current());
  explicit CosineSimilarity(CosineSimilarityOptions options);
};
struct PairwiseDistance final
    : Function2<PairwiseDistance, static_cast<DistanceOp>(pairwise_distance), double, double,
                bool> {
  explicit PairwiseDistance(double p = 2.0, double eps = 1e-6, bool keepdim = false);
  explicit PairwiseDistance(PairwiseDistanceOptions options);
};

}  // namespace tapegrad::nn
