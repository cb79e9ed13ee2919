// Definitions for a build without cuDNN's header.
#include "backends/cuda/cudnn/attention.h"
#include "backends/cuda/cudnn/available.h"
#include "backends/cuda/cudnn/conv.h"
#include "backends/cuda/cudnn/norm.h"
#include "backends/cuda/cudnn/pool.h"

namespace tapegrad::backends::cuda {

std::string why_no_cudnn(tapegrad::Device) { return "built without the header of cuDNN"; }
std::string describe_cudnn() { return "no cuDNN (built without its header)"; }
bool use_cudnn(bool) { return false; }

bool cudnn_conv2d(const Tensor&, const Tensor&, const Conv2dOptions&, Tensor&, ImageLayout) {
  return false;
}
bool cudnn_conv2d_input(const Tensor&, const Tensor&, const Conv2dOptions&, Tensor&, ImageLayout) {
  return false;
}
bool cudnn_conv2d_weight(const Tensor&, const Tensor&, const Conv2dOptions&, Tensor&, ImageLayout) {
  return false;
}

bool cudnn_attention(const Tensor&, const Tensor&, const Tensor&, bool, double, Tensor&, Tensor&) {
  return false;
}
bool cudnn_attention_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool,
                              double, const Tensor&, const Tensor&, Tensor&, Tensor&, Tensor&) {
  return false;
}

bool cudnn_batch_norm(const Tensor&, const Tensor&, const Tensor&, double, Tensor&, Tensor&,
                      Tensor&, Tensor&) {
  return false;
}
bool cudnn_batch_norm_backward(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                               const Tensor&, Tensor&, Tensor&, Tensor&) {
  return false;
}

bool cudnn_max_pool2d(const Tensor&, const MaximumWindows&, Tensor&, ImageLayout) { return false; }
bool cudnn_avg_pool2d(const Tensor&, const AverageWindows&, Tensor&, ImageLayout) { return false; }
bool cudnn_avg_pool2d_backward(const Tensor&, const AverageWindows&, Tensor&, ImageLayout) {
  return false;
}

}  // namespace tapegrad::backends::cuda
