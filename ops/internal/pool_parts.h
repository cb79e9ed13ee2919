// Helpers shared by pooling ops of one, two and three dimensions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ops/catalog.h"
#include "ops/internal/window.h"
#include "ops/pool.h"

namespace tapegrad::detail {

/// Returns zeros of the given spatial shape with x written at the indices.
Variable max_unpool(std::string_view op, const Variable& x, const Variable& indices,
                    const Shape& spatial, Where where);

/// Returns the shape of pooled images. Throws ArgumentError and ShapeError for windows that do not
/// fit.
Shape pooled_shape(std::string_view op, const Shape& x, const Windows& windows);

inline void check_divisor(std::string_view op, std::optional<int64_t> divisor_override) {
  if (divisor_override && *divisor_override < 1) [[unlikely]]
    fail<ArgumentError>(op, ": .divisor_override is ", *divisor_override, ", not at least 1");
}

/// The windows along one spatial dimension.
struct PooledDim {
  int64_t kernel, stride, padding, count;
};
/// Options of integer_means that avg_pool1d, avg_pool2d and avg_pool3d have in common.
struct DivisorOptions {
  bool count_include_pad;
  std::optional<int64_t> divisor_override;
};
/// Returns the means of the windows of integers, rounded towards zero as in PyTorch. Dimensions are
/// the last ones of x.
Variable integer_means(const Variable& x, const std::vector<PooledDim>& dims,
                       const DivisorOptions& options);

// Argument lists of catalog rows.

inline constexpr std::string_view kMaxPool =
    "(input, kernel_size: ints, stride: ints = none, padding: ints = 0, dilation: ints = 1, "
    "ceil_mode: bool = false)";
inline constexpr std::string_view kAvgPool =
    "(input, kernel_size: ints, stride: ints = none, padding: ints = 0, ceil_mode: bool = false, "
    "count_include_pad: bool = true)";

inline std::string named(std::string_view name, std::string_view arguments) {
  return std::string(name) + std::string(arguments);
}

/// Type of size1d, size2d and size3d, which read an attribute.
template <typename Size>
using SizeOf = Size (*)(const Arguments&, std::string_view);

template <typename Size>
std::optional<Size> optional_size(const Arguments& a, std::string_view name, SizeOf<Size> size) {
  return a.has(name) ? std::optional(size(a, name)) : std::nullopt;
}
template <typename Size>
MaxPoolOptions<Size> max_pool_options(const Arguments& a,
                                      Size (*size)(const Arguments&, std::string_view)) {
  return {.kernel_size = size(a, "kernel_size"),
          .stride = optional_size<Size>(a, "stride", size),
          .padding = size(a, "padding"),
          .dilation = size(a, "dilation"),
          .ceil_mode = a.flag("ceil_mode")};
}
template <typename Size>
AvgPoolOptions<Size> avg_pool_options(const Arguments& a,
                                      Size (*size)(const Arguments&, std::string_view)) {
  return {.kernel_size = size(a, "kernel_size"),
          .stride = optional_size<Size>(a, "stride", size),
          .padding = size(a, "padding"),
          .ceil_mode = a.flag("ceil_mode"),
          .count_include_pad = a.flag("count_include_pad")};
}

inline std::vector<Variable> with_indices(ValuesIndices result) {
  return {std::move(result.values), std::move(result.indices)};
}

}  // namespace tapegrad::detail
