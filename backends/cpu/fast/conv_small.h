// Float32 convolutions with fewer output channels than a vector has lanes, as in first layers.
// oneDNN would pad the channels and spend more time on layout conversion than on the sums.
#pragma once

#include "ops/conv.h"

namespace tapegrad::backends::cpu {

/// Implementation of kernels::conv2d with vectors along image rows.
struct ConvSmall {
  static constexpr std::string_view kName = "small";
  static bool accepts(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Conv2dOptions& options, const Epilogue& epilogue, const Tensor& y);
  static void run(TypeTag<float>, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Conv2dOptions& options, const Epilogue& epilogue, Tensor& y);
};

/// Implementation of kernels::conv2d_backward that computes dw and db. Another implementation
/// computes dx.
struct ConvBackwardSmall {
  static constexpr std::string_view kName = "small";
  static bool accepts(const Tensor& dy, const Epilogue& behind, const Tensor& x,
                      const Tensor& weight, const Conv2dOptions& options, const Tensor& dx,
                      const Tensor& dw, const Tensor& db);
  static void run(TypeTag<float>, const Tensor& dy, const Epilogue& behind, const Tensor& x,
                  const Tensor& weight, const Conv2dOptions& options, Tensor& dx, Tensor& dw,
                  Tensor& db);
};

}  // namespace tapegrad::backends::cpu
