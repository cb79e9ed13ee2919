// Float32 convolutions whose channels would leave a part of oneDNN's blocks empty: fewer output
// channels than a vector has lanes, as in first and last layers and in DenseNet, or 17 to 44
// channels. oneDNN would pad the channels to whole vectors, and convert the layout of the images.
// The gradients are those of convolutions of stride 1.
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

}  // namespace tapegrad::backends::cpu
