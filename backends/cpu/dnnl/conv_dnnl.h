// Convolutions by oneDNN, for float32, and for bfloat16 (accumulated in float32) where the
// processor multiplies bfloat16 faster.
#pragma once

#include <memory>
#include <optional>

#include "backends/cpu/fast/packed.h"
#include "core/dispatch/implementations.h"
#include "ops/conv.h"

namespace tapegrad::backends::cpu {

/// Primitive for one set of sizes, made when these sizes are first used.
struct ConvPlan;
using ConvPlanRef = std::shared_ptr<const ConvPlan>;

struct ConvBackwardPlans {
  ConvPlanRef input, weight;  // null for a gradient that is not requested
};

/// Implementation of kernels::conv2d. Accepts the sizes for which oneDNN has a primitive.
struct ConvDnnl {
  static constexpr std::string_view kName = "dnnl";
  static constexpr bool kTakesPacked = true;
  static bool is_available(DType dtype) { return is_packable(dtype); }
  static ConvPlanRef accepts(const Tensor& x, const Tensor& weight, const Tensor& bias,
                             const Conv2dOptions& options, const Epilogue& epilogue,
                             const Tensor& y);
  static void run(OneOf<float, bfloat16>, const ConvPlan& plan, const Tensor& x,
                  const Tensor& weight, const Tensor& bias, const Conv2dOptions& options,
                  const Epilogue& epilogue, Tensor& y);
};

/// Implementation of kernels::conv2d_backward.
struct ConvBackwardDnnl {
  static constexpr std::string_view kName = "dnnl";
  static constexpr bool kTakesPacked = true;
  static bool is_available(DType dtype) { return is_packable(dtype); }

  static std::optional<ConvBackwardPlans> accepts(const Tensor& dy, const Epilogue& behind,
                                                  const Tensor& x, const Tensor& weight,
                                                  const Conv2dOptions& options, const Tensor& dx,
                                                  const Tensor& dw, const Tensor& db);
  static void run(OneOf<float, bfloat16>, const ConvBackwardPlans& plans, const Tensor& dy,
                  const Epilogue& behind, const Tensor& x, const Tensor& weight,
                  const Conv2dOptions& options, Tensor& dx, Tensor& dw, Tensor& db);
};

/// Implementations of kernels::conv3d and conv3d_backward. Both accept the same sizes.
struct ConvVolumeDnnl {
  static constexpr std::string_view kName = "dnnl";
  static constexpr bool kTakesPacked = true, kIsFallback = true;
  static bool is_available(DType dtype) { return is_packable(dtype); }
  static ConvPlanRef accepts(const Tensor& x, const Tensor& weight, const Tensor& bias,
                             const Conv3dOptions& options, const Tensor& y);
  static void run(OneOf<float, bfloat16>, const ConvPlan& plan, const Tensor& x,
                  const Tensor& weight, const Tensor& bias, const Conv3dOptions& options,
                  Tensor& y);
};
struct ConvVolumeBackwardDnnl {
  static constexpr std::string_view kName = "dnnl";
  static constexpr bool kTakesPacked = true, kIsFallback = true;
  static bool is_available(DType dtype) { return is_packable(dtype); }
  static std::optional<ConvBackwardPlans> accepts(const Tensor& dy, const Tensor& x,
                                                  const Tensor& weight,
                                                  const Conv3dOptions& options, const Tensor& dx,
                                                  const Tensor& dw, const Tensor& db);
  static void run(OneOf<float, bfloat16>, const ConvBackwardPlans& plans, const Tensor& dy,
                  const Tensor& x, const Tensor& weight, const Conv3dOptions& options, Tensor& dx,
                  Tensor& dw, Tensor& db);
};

}  // namespace tapegrad::backends::cpu
