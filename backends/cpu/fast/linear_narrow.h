// Linear layers with few columns in float32, as in small perceptrons. The product of 40,000 rows of
// 20 by a 20 x 5 weight is bound by memory: a library packs its operands, and every further op
// reads the rows again. Here one pass over the rows computes the layer, and a second one its whole
// gradient.
#pragma once

#include <string_view>

#include "core/dispatch/recorded_call.h"
#include "ops/epilogue.h"

namespace tapegrad::backends::cpu {

/// Implementation of kernels::linear.
struct LinearNarrow {
  static constexpr std::string_view kName = "narrow";
  static bool accepts(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Epilogue& epilogue, const Tensor& y);
  static void run(TypeTag<float>, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Epilogue& epilogue, Tensor& y);
  using Rows = RowFunctions<const Tensor&, const Tensor&, const Tensor&, const Epilogue&, Tensor&>;
  static const Rows kRows;
};

/// Implementation of kernels::linear_backward.
struct LinearBackwardNarrow {
  static constexpr std::string_view kName = "narrow";
  static bool accepts(const Tensor& dy, const Epilogue& behind, const Tensor& x,
                      const Tensor& weight, const Epilogue& front, const Tensor& dx,
                      const Tensor& dw, const Tensor& db);
  static void run(TypeTag<float>, const Tensor& dy, const Epilogue& behind, const Tensor& x,
                  const Tensor& weight, const Epilogue& front, Tensor& dx, Tensor& dw, Tensor& db);
  using Rows = RowFunctions<const Tensor&, const Epilogue&, const Tensor&, const Tensor&,
                            const Epilogue&, Tensor&, Tensor&, Tensor&>;
  static const Rows kRows;
};

}  // namespace tapegrad::backends::cpu
