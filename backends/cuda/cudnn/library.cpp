#include "backends/cuda/cudnn/library.h"

#include <atomic>

#include "backends/cuda/cudnn/available.h"
#include "backends/cuda/runtime/api.h"
#include "backends/cuda/runtime/stream.h"
#include "core/base/error.h"
#include "core/cuda.h"
#include "core/dispatch/implementations.h"

namespace tapegrad::backends::cuda {
namespace {

std::atomic<bool>& is_wanted() {
  static std::atomic<bool> wanted{!only_fallbacks()};
  return wanted;
}
/// Returns the reason why cuDNN is unavailable on all devices; empty if it is available.
std::string why_none() {
  if (!is_wanted()) return "cuDNN is not wanted";
  return dnn().cudnnCreate ? "" : "libcudnn.so.9 could not be opened";
}

/// The cuDNN handle of a device. Never destroyed.
struct Handle {
  std::mutex mutex;
  cudnnHandle_t native = nullptr;
  std::string reason;  // the error of the first attempt to create the handle

  void open() {
    if (native != nullptr || !reason.empty()) return;
    stop_recording("cuDNN begins");
    const cudnnStatus_t status = dnn().cudnnCreate(&native);
    if (status == CUDNN_STATUS_SUCCESS) return;
    native = nullptr;
    reason = "cudnnCreate: " + describe(status);
  }
};
Handle& handle_of(tapegrad::Device device) {
  static auto* all = new Handle[kMaxDevices];
  return all[device.index];
}

}  // namespace

const Cudnn& dnn() {
  static const Cudnn opened;
  return opened;
}

std::string describe(cudnnStatus_t status) {
  char details[256] = "";
  dnn().cudnnGetLastErrorString(details, sizeof(details));
  return std::string(dnn().cudnnGetErrorString(status)) + (details[0] != 0 ? ": " : "") + details;
}
void check(cudnnStatus_t status, std::string_view call) {
  if (status != CUDNN_STATUS_SUCCESS)
    fail<tapegrad::cuda::CudaError>(current_op(), ": ", call, ": ", describe(status));
}

cudnnDataType_t cudnn_type(DType dtype) {
  switch (dtype) {
    case f16:
      return CUDNN_DATA_HALF;
    case bf16:
      return CUDNN_DATA_BFLOAT16;
    case f32:
      return CUDNN_DATA_FLOAT;
    default:
      return CUDNN_DATA_DOUBLE;
  }
}

bool is_cudnn_wanted() { return is_wanted(); }

CudnnUse::CudnnUse(tapegrad::Device device) : device_(device), reason_(why_none()) {
  if (!reason_.empty()) return;
  const cudaStream_t stream = stream_of(device);  // also makes the device current for this thread
  Handle& handle = handle_of(device);
  lock_ = std::unique_lock(handle.mutex);
  handle.open();
  handle_ = handle.native;
  reason_ = handle.reason;
  if (handle_ != nullptr) TG_DNN(cudnnSetStream, handle_, stream);
}

std::string why_no_cudnn(tapegrad::Device device) { return CudnnUse(device).reason(); }

std::string describe_cudnn() {
  if (const std::string why = why_none(); !why.empty()) return "no cuDNN (" + why + ')';
  const size_t version = dnn().cudnnGetVersion();
  return "cuDNN " + std::to_string(version / 10000) + '.' + std::to_string(version / 100 % 100);
}

bool use_cudnn(bool on) { return is_wanted().exchange(on); }

}  // namespace tapegrad::backends::cuda
