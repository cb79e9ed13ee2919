// Pooling of tensors with a packed layout (packed.h): pools a block of channels at a time.
#pragma once

#include "backends/cpu/fast/packed.h"
#include "ops/pool.h"

namespace tapegrad::backends::cpu {

/// Implementation of kernels::max_pool2d.
struct MaxPoolPacked {
  static constexpr std::string_view kName = "packed";
  static constexpr bool kTakesPacked = true;
  static std::optional<PackedValues> accepts(const Tensor& x, const MaximumWindows& windows,
                                             const Tensor& y, const Tensor& indices);
  static void run(TypeTag<float>, const PackedValues& values, const Tensor& x,
                  const MaximumWindows& windows, Tensor& y, Tensor& indices);
};

/// Implementation of kernels::pool_scatter.
struct PoolScatterPacked {
  static constexpr std::string_view kName = "packed";
  static constexpr bool kTakesPacked = true;
  /// Returns the values of the indices.
  static std::optional<PackedValues> accepts(const Tensor& dy, const Tensor& indices,
                                             const std::optional<MaximumWindows>& windows,
                                             const Tensor& dx);
  static void run(TypeTag<float>, const PackedValues& places, const Tensor& dy,
                  const Tensor& indices, const std::optional<MaximumWindows>& windows, Tensor& dx);
};

/// Implementation of kernels::avg_pool2d.
struct AvgPoolPacked {
  static constexpr std::string_view kName = "packed";
  static constexpr bool kTakesPacked = true;
  static bool is_available(DType dtype) { return is_packable(dtype); }
  static std::optional<PackedValues> accepts(const Tensor& x, const AverageWindows& windows,
                                             const Tensor& y);
  template <Packable T>
  static void run(TypeTag<T>, const PackedValues& values, const Tensor& x,
                  const AverageWindows& windows, Tensor& y);
};

/// Implementation of kernels::avg_pool2d_backward. The gradient of means of whole planes is packed
/// although dy is not: planes are packed after a convolution.
struct AvgPoolBackwardPacked {
  static constexpr std::string_view kName = "packed";
  static constexpr bool kTakesPacked = true;
  static bool accepts(const Tensor& dy, const AverageWindows& windows, const Tensor& dx);
  static void run(TypeTag<float>, const Tensor& dy, const AverageWindows& windows, Tensor& dx);
};

}  // namespace tapegrad::backends::cpu
