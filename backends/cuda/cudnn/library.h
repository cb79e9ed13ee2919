// cuDNN's functions, handles and error checks. Only for files that are compiled with cuDNN's
// header; others use available.h.
#pragma once

#include <cudnn.h>

#include <limits>
#include <mutex>
#include <string>
#include <string_view>

#include "backends/cuda/runtime/address.h"
#include "backends/cuda/runtime/library.h"

namespace tapegrad::backends::cuda {

/// A cuDNN function with the prototype of its header.
#define TG_CUDNN(name) \
  const Found<decltype(::name)> name { find_in_cudnn(#name) }
struct Cudnn {
  TG_CUDNN(cudnnGetVersion);
  TG_CUDNN(cudnnCreate);
  TG_CUDNN(cudnnSetStream);
  TG_CUDNN(cudnnGetErrorString);
  TG_CUDNN(cudnnGetLastErrorString);
  // Convolutions.
  TG_CUDNN(cudnnCreateTensorDescriptor);
  TG_CUDNN(cudnnSetTensor4dDescriptor);
  TG_CUDNN(cudnnDestroyTensorDescriptor);
  TG_CUDNN(cudnnCreateFilterDescriptor);
  TG_CUDNN(cudnnSetFilter4dDescriptor);
  TG_CUDNN(cudnnDestroyFilterDescriptor);
  TG_CUDNN(cudnnCreateConvolutionDescriptor);
  TG_CUDNN(cudnnSetConvolution2dDescriptor);
  TG_CUDNN(cudnnSetConvolutionGroupCount);
  TG_CUDNN(cudnnSetConvolutionMathType);
  TG_CUDNN(cudnnDestroyConvolutionDescriptor);
  TG_CUDNN(cudnnGetConvolutionForwardAlgorithm_v7);
  TG_CUDNN(cudnnGetConvolutionForwardWorkspaceSize);
  TG_CUDNN(cudnnConvolutionForward);
  TG_CUDNN(cudnnGetConvolutionBackwardDataAlgorithm_v7);
  TG_CUDNN(cudnnGetConvolutionBackwardDataWorkspaceSize);
  TG_CUDNN(cudnnConvolutionBackwardData);
  TG_CUDNN(cudnnGetConvolutionBackwardFilterAlgorithm_v7);
  TG_CUDNN(cudnnGetConvolutionBackwardFilterWorkspaceSize);
  TG_CUDNN(cudnnConvolutionBackwardFilter);
  // Graphs.
  TG_CUDNN(cudnnBackendCreateDescriptor);
  TG_CUDNN(cudnnBackendDestroyDescriptor);
  TG_CUDNN(cudnnBackendSetAttribute);
  TG_CUDNN(cudnnBackendGetAttribute);
  TG_CUDNN(cudnnBackendFinalize);
  TG_CUDNN(cudnnBackendExecute);
};
#undef TG_CUDNN
const Cudnn& dnn();

/// cuDNN's description of an error.
std::string describe(cudnnStatus_t status);
/// Throws CudaError, for example "conv2d: cudnnConvolutionForward: ...", unless the call succeeded.
void check(cudnnStatus_t status, std::string_view call);
#define TG_DNN(call, ...) \
  ::tapegrad::backends::cuda::check(::tapegrad::backends::cuda::dnn().call(__VA_ARGS__), #call)

inline bool is_category(cudnnStatus_t status, cudnnStatus_t category) {
  return CUDNN_STATUS_CATEGORY(int(status)) == int(category);
}

cudnnDataType_t cudnn_type(DType dtype);

/// Maximum workspace of cuDNN's kernels, in bytes.
inline constexpr size_t kMostWorkspace = size_t(1) << 30;

/// Returns whether x is not empty, has fewer than 2^31 elements, and is aligned to 16 bytes.
inline bool is_fit_for_cudnn(const Tensor& x) {
  return x.numel() > 0 && x.numel() <= std::numeric_limits<int>::max() &&
         reinterpret_cast<uintptr_t>(address_of(x)) % 16 == 0;
}

bool is_cudnn_wanted();

/// Exclusive use of cuDNN on a device, for the lifetime of the object.
class CudnnUse {
 public:
  /// Sets cuDNN's stream to this thread's current stream on the device.
  explicit CudnnUse(tapegrad::Device device);
  /// False if cuDNN is unavailable.
  explicit operator bool() const { return handle_ != nullptr; }
  cudnnHandle_t handle() const { return handle_; }
  tapegrad::Device device() const { return device_; }
  /// Returns the reason why cuDNN is unavailable.
  const std::string& reason() const { return reason_; }

 private:
  tapegrad::Device device_;
  std::unique_lock<std::mutex> lock_;
  cudnnHandle_t handle_ = nullptr;
  std::string reason_;
};

}  // namespace tapegrad::backends::cuda
