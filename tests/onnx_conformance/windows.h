// What convolutions and pools of one to three dimensions share: kernels, strides and padding.
#pragma once

#include "ops/catalog.h"
#include "tests/onnx_conformance/value.h"

namespace tapegrad::onnx_conformance {

/// The first result of "conv2d" for "conv" and 2, and so on.
Variable run_op(const std::string& name, size_t dims, Values inputs, Attributes attributes);

struct Windows {
  Ints kernel, stride, dilation;
  Ints before, after;  // padding
  Ints sizes;          // of the results

  /// For the images x and a weight, or an attribute kernel_shape without one.
  Windows(const Node& node, const Variable& x, const Variable& weight = {});

  size_t dims() const { return kernel.size(); }
  bool is_padded() const;
  /// x with its padding (the last dimension first, as pad() has it), and `extended` to the full
  /// last window where sizes were rounded up.
  Ints amounts(const Variable& x, bool extended) const;
};

/// Of images x with a weight and an optional bias; the node has the windows.
Variable convolution(const Node& node, const Variable& x, const Variable& weight,
                     const Variable& bias);

}  // namespace tapegrad::onnx_conformance
