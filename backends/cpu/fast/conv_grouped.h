// Float32 convolutions with few channels in each group, above all depthwise convolutions. A vector
// holds a block of channels at one position of the image.
#pragma once

#include "core/dispatch/implementations.h"
#include "ops/conv.h"

namespace tapegrad::backends::cpu {

/// Implementation of kernels::conv2d. Images may be packed.
struct ConvGrouped {
  static constexpr std::string_view kName = "grouped";
  static constexpr bool kTakesPacked = true;
  static bool accepts(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Conv2dOptions& options, const Epilogue& epilogue, const Tensor& y);
  static void run(TypeTag<float>, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Conv2dOptions& options, const Epilogue& epilogue, Tensor& y);
};

/// Implementation of kernels::conv2d_backward.
struct ConvBackwardGrouped {
  static constexpr std::string_view kName = "grouped";
  static constexpr bool kTakesPacked = true;
  static bool accepts(const Tensor& dy, const Epilogue& behind, const Tensor& x,
                      const Tensor& weight, const Conv2dOptions& options, const Tensor& dx,
                      const Tensor& dw, const Tensor& db);
  static void run(TypeTag<float>, const Tensor& dy, const Epilogue& behind, const Tensor& x,
                  const Tensor& weight, const Conv2dOptions& options, Tensor& dx, Tensor& dw,
                  Tensor& db);
};

}  // namespace tapegrad::backends::cpu
