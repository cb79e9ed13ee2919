// Kernel sizes, strides and padding of convolutions and pooling in one to three dimensions.
#pragma once

#include "ops/catalog.h"
#include "tests/onnx_conformance/value.h"

namespace tapegrad::onnx_conformance {

/// Calls an op, for example "conv2d" for name "conv" and dims 2; returns its first result.
Variable run_op(const std::string& name, size_t dims, Values inputs, Attributes attributes);

struct Windows {
  Ints kernel, stride, dilation;
  Ints before, after;  // padding
  Ints sizes;          // of the results

  /// For images x and a weight, or without a weight for the attribute kernel_shape.
  Windows(const Node& node, const Variable& x, const Variable& weight = {});

  size_t dims() const { return kernel.size(); }
  bool is_padded() const;
  /// Padding of x in the order of pad() (last dimension first). If `extended`, includes the whole
  /// last window where sizes were rounded up.
  Ints amounts(const Variable& x, bool extended) const;
};

/// Convolution of images x with a weight and an optional bias; the options are those of the node.
Variable convolution(const Node& node, const Variable& x, const Variable& weight,
                     const Variable& bias);

}  // namespace tapegrad::onnx_conformance
