// Float32 convolutions of volumes with one channel in each group, and stride 1.
#pragma once

#include "core/dispatch/implementations.h"
#include "ops/internal/conv_volume.h"

namespace tapegrad::backends::cpu {

/// Implementations of kernels::conv3d and conv3d_backward. Both accept the same sizes.
struct ConvDepthwiseVolume {
  static constexpr std::string_view kName = "depthwise";
  static bool accepts(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Conv3dOptions& options, const Tensor& y);
  static void run(TypeTag<float>, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Conv3dOptions& options, Tensor& y);
};
struct ConvBackwardDepthwiseVolume {
  static constexpr std::string_view kName = "depthwise";
  static bool accepts(const Tensor& dy, const Tensor& x, const Tensor& weight,
                      const Conv3dOptions& options, const Tensor& dx, const Tensor& dw,
                      const Tensor& db);
  static void run(TypeTag<float>, const Tensor& dy, const Tensor& x, const Tensor& weight,
                  const Conv3dOptions& options, Tensor& dx, Tensor& dw, Tensor& db);
};

}  // namespace tapegrad::backends::cpu
