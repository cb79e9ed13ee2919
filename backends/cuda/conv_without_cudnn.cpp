// In place of conv_cudnn.cpp where there is no header of cuDNN.
#include "backends/cuda/conv_cudnn.h"

namespace tapegrad::backends::cuda {

bool cudnn_conv2d(const Tensor&, const Tensor&, const Conv2dOptions&, Tensor&, ImageLayout) {
  return false;
}
bool cudnn_conv2d_input(const Tensor&, const Tensor&, const Conv2dOptions&, Tensor&, ImageLayout) {
  return false;
}
bool cudnn_conv2d_weight(const Tensor&, const Tensor&, const Conv2dOptions&, Tensor&, ImageLayout) {
  return false;
}

std::string why_no_cudnn(tapegrad::Device) { return "built without the header of cuDNN"; }
std::string describe_conv() { return "columns and products (built without the header of cuDNN)"; }
bool use_cudnn(bool) { return false; }

}  // namespace tapegrad::backends::cuda
