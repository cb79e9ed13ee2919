// Float32 convolutions whose channels would leave a part of oneDNN's blocks empty: fewer output
// channels than a vector has lanes, as in first and last layers and in DenseNet, or 17 to 44
// channels. oneDNN would pad the channels to whole vectors, and convert the layout of the images.
#pragma once

#include "core/dispatch/implementations.h"
#include "ops/internal/conv_volume.h"

namespace tapegrad::backends::cpu {

/// Implementation of kernels::conv2d with vectors along image rows.
struct ConvSmall {
  static constexpr std::string_view kName = "small";
  static bool accepts(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Conv2dOptions& options, const Epilogue& epilogue, const Tensor& y);
  static void run(TypeTag<float>, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Conv2dOptions& options, const Epilogue& epilogue, Tensor& y);
};

/// Implementation of kernels::conv2d_backward that computes dx, or dw and db, or all of them.
/// Another implementation computes the others.
struct ConvBackwardSmall {
  static constexpr std::string_view kName = "small";
  static bool accepts(const Tensor& dy, const Epilogue& behind, const Tensor& x,
                      const Tensor& weight, const Conv2dOptions& options, const Tensor& dx,
                      const Tensor& dw, const Tensor& db);
  static void run(TypeTag<float>, const Tensor& dy, const Epilogue& behind, const Tensor& x,
                  const Tensor& weight, const Conv2dOptions& options, Tensor& dx, Tensor& dw,
                  Tensor& db);
};

/// Implementations of kernels::conv3d and conv3d_backward. A result reads the same planes of all
/// channels, like the channels of an image.
struct ConvSmallVolume {
  static constexpr std::string_view kName = "small";
  static bool accepts(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Conv3dOptions& options, const Tensor& y);
  static void run(TypeTag<float>, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Conv3dOptions& options, Tensor& y);
};
struct ConvBackwardSmallVolume {
  static constexpr std::string_view kName = "small";
  static bool accepts(const Tensor& dy, const Tensor& x, const Tensor& weight,
                      const Conv3dOptions& options, const Tensor& dx, const Tensor& dw,
                      const Tensor& db);
  static void run(TypeTag<float>, const Tensor& dy, const Tensor& x, const Tensor& weight,
                  const Conv3dOptions& options, Tensor& dx, Tensor& dw, Tensor& db);
};

}  // namespace tapegrad::backends::cpu
