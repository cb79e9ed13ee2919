// Max pooling with windows at random places: FractionalMaxPool2d and FractionalMaxPool3d.
#pragma once

#include "nn/conv.h"
#include "ops/pool_composed.h"

namespace tapegrad::nn {

/// Takes the maxima of windows at random places (fractional_max_pool2d in ops/pool_composed.h).
template <typename Self, typename Size>
class FractionalMaxPool : public Stateless<Self> {
 public:
  using Options = FractionalMaxPoolOptions<Size>;
  explicit FractionalMaxPool(Options options) : options_(std::move(options)) {
    require_windows(this->kind(), detail::windows_of(options_), options_.by_name.where);
  }
  FractionalMaxPool(Size kernel_size, Size output_size, Where where = Where::current())
      : FractionalMaxPool(
            Options{.by_name = {where}, .kernel_size = kernel_size, .output_size = output_size}) {}
  /// Takes the size of a window, and options by name: FractionalMaxPool2d(3, {.output_ratio =
  /// 0.5}).
  FractionalMaxPool(Size kernel_size, Options options)
      : FractionalMaxPool((options.kernel_size = kernel_size, options)) {}

  Variable forward(const Variable& x, Where where = Where::current()) const {
    return Self::pool(x, options_, where).values;
  }
  /// Returns the maxima and their positions.
  ValuesIndices forward_with_indices(const Variable& x, Where where = Where::current()) const {
    return Self::pool(x, options_, where);
  }

 private:
  Options options_;
};

struct FractionalMaxPool2d final : FractionalMaxPool<FractionalMaxPool2d, Size2d> {
  static constexpr std::string_view kName = "FractionalMaxPool2d";
  static constexpr auto pool = fractional_max_pool2d_with_indices;
  using FractionalMaxPool::FractionalMaxPool;
};
struct FractionalMaxPool3d final : FractionalMaxPool<FractionalMaxPool3d, Size3d> {
  static constexpr std::string_view kName = "FractionalMaxPool3d";
  static constexpr auto pool = fractional_max_pool3d_with_indices;
  using FractionalMaxPool::FractionalMaxPool;
};

}  // namespace tapegrad::nn
