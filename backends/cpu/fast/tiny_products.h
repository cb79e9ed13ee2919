// Batches of matrix products of so few multiplications that each call of a library would take
// longer than the product, as in capsules, rotations of points, and attention of few keys.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::backends::cpu {

/// Implementation of kernels::matmul with tiles of up to 16 columns in registers.
struct MatmulTiny {
  static constexpr std::string_view kName = "tiny";
  static bool accepts(const Tensor& a, const Tensor& b, const Tensor& y);
  static void run(TypeTag<float>, const Tensor& a, const Tensor& b, Tensor& y);
  static void run(TypeTag<double>, const Tensor& a, const Tensor& b, Tensor& y);
};

}  // namespace tapegrad::backends::cpu
