// Convolution and pooling of images [batch, channels, height, width].
#pragma once

#include <optional>

#include "nn/weighted.h"
#include "ops/conv.h"
#include "ops/pool.h"

namespace tapegrad::nn {

struct Conv2dOptions {
  int64_t in_channels = 0;   // may be left out: the first input tells
  int64_t out_channels = 0;  // required
  Size2d kernel_size = 0;    // required
  Size2d stride = 1;
  Size2d padding = 0;
  Size2d dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};
/// Cross-correlation; weight [out_channels, in_channels / groups, height, width].
class Conv2d final : public Weighted<Conv2d> {
 public:
  static constexpr std::string_view kName = "Conv2d";
  explicit Conv2d(Conv2dOptions options);

  Variable forward(const Variable& x, Where where = Where::current()) const;
  std::string options() const override;

 private:
  Shape weight_shape(int64_t in_channels) const;

  Conv2dOptions options_;
};

/// The options of the pooling layers are those of the functions in ops/pool.h.
class MaxPool2d final : public Stateless<MaxPool2d> {
 public:
  static constexpr std::string_view kName = "MaxPool2d";
  explicit MaxPool2d(MaxPool2dOptions options) : options_(options) {}
  explicit MaxPool2d(Size2d kernel_size) : options_{.kernel_size = kernel_size} {}

  Variable forward(const Variable& x, Where where = Where::current()) const {
    return max_pool2d(x, options_, where);
  }
  std::string options() const override;

 private:
  MaxPool2dOptions options_;
};

class AvgPool2d final : public Stateless<AvgPool2d> {
 public:
  static constexpr std::string_view kName = "AvgPool2d";
  explicit AvgPool2d(AvgPool2dOptions options) : options_(options) {}
  explicit AvgPool2d(Size2d kernel_size) : options_{.kernel_size = kernel_size} {}

  Variable forward(const Variable& x, Where where = Where::current()) const {
    return avg_pool2d(x, options_, where);
  }
  std::string options() const override;

 private:
  AvgPool2dOptions options_;
};

class AdaptiveAvgPool2d final : public Stateless<AdaptiveAvgPool2d> {
 public:
  static constexpr std::string_view kName = "AdaptiveAvgPool2d";
  explicit AdaptiveAvgPool2d(Size2d output_size) : output_size_(output_size) {}

  Variable forward(const Variable& x, Where where = Where::current()) const {
    return adaptive_avg_pool2d(x, output_size_, where);
  }
  std::string options() const override;

 private:
  Size2d output_size_;
};

}  // namespace tapegrad::nn
