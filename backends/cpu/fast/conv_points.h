// Float32 convolutions of kernel size 1, which are products of matrices for each image:
// y = w x + bias. Used for channels that fill no blocks of oneDNN: oneDNN would copy the images to
// padded images.
#pragma once

#include "ops/conv.h"

namespace tapegrad::backends::cpu {

/// Implementation of kernels::conv2d.
struct ConvPoints {
  static constexpr std::string_view kName = "points";
  static bool accepts(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Conv2dOptions& options, const Epilogue& epilogue, const Tensor& y);
  static void run(TypeTag<float>, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Conv2dOptions& options, const Epilogue& epilogue, Tensor& y);
};

/// Implementation of kernels::conv2d_backward that computes dx and dw. Another one computes db.
struct ConvBackwardPoints {
  static constexpr std::string_view kName = "points";
  static bool accepts(const Tensor& dy, const Epilogue& behind, const Tensor& x,
                      const Tensor& weight, const Conv2dOptions& options, const Tensor& dx,
                      const Tensor& dw, const Tensor& db);
  static void run(TypeTag<float>, const Tensor& dy, const Epilogue& behind, const Tensor& x,
                  const Tensor& weight, const Conv2dOptions& options, Tensor& dx, Tensor& dw,
                  Tensor& db);
};

}  // namespace tapegrad::backends::cpu
