#include "backends/cuda/cusolver/library.h"

#include "backends/cuda/runtime/api.h"
#include "backends/cuda/runtime/stream.h"
#include "core/base/error.h"
#include "core/cuda.h"

namespace tapegrad::backends::cuda::cusolver {
namespace {

struct Cusolver {
  const Found<decltype(cusolverDnCreate)> create{find_in_cusolver("cusolverDnCreate")};
  const Found<decltype(cusolverDnSetStream)> set_stream{find_in_cusolver("cusolverDnSetStream")};
  const Found<decltype(cusolverDnCreateGesvdjInfo)> create_svd{
      find_in_cusolver("cusolverDnCreateGesvdjInfo")};
  const Found<decltype(cusolverDnCreateSyevjInfo)> create_eigh{
      find_in_cusolver("cusolverDnCreateSyevjInfo")};
};
const Cusolver& library() {
  static const Cusolver opened;
  return opened;
}

/// State shared by all calls on a device. Never destroyed.
struct Shared {
  std::mutex mutex;
  bool is_tried = false;
  cusolverDnHandle_t handle = nullptr;  // null if it cannot be created
  gesvdjInfo_t of_svd = nullptr;
  syevjInfo_t of_eigh = nullptr;

  void open() {
    if (is_tried) return;
    is_tried = true;
    if (library().create(&handle) != CUSOLVER_STATUS_SUCCESS) handle = nullptr;
    if (handle == nullptr) return;
    check(library().create_svd(&of_svd), "cusolverDnCreateGesvdjInfo");
    check(library().create_eigh(&of_eigh), "cusolverDnCreateSyevjInfo");
  }
};
Shared& shared_by(tapegrad::Device device) {
  static auto* all = new Shared[kMaxDevices];
  return all[device.index];
}

}  // namespace

Use::Use(const Tensor& where) {
  if (!library().create) return;
  stop_recording("cuSOLVER runs");
  const cudaStream_t stream = stream_of(where);  // also makes the device current for this thread
  Shared& shared = shared_by(where.device());
  lock_ = std::unique_lock(shared.mutex);
  shared.open();
  handle_ = shared.handle;
  of_svd_ = shared.of_svd;
  of_eigh_ = shared.of_eigh;
  if (handle_ != nullptr) check(library().set_stream(handle_, stream), "cusolverDnSetStream");
}

void check(cusolverStatus_t status, std::string_view call) {
  if (status != CUSOLVER_STATUS_SUCCESS)
    fail<tapegrad::cuda::CudaError>(current_op(), ": ", call, ": status ", int(status));
}

bool is_accepted(cusolverStatus_t status, std::string_view call) {
  if (status == CUSOLVER_STATUS_NOT_SUPPORTED || status == CUSOLVER_STATUS_ALLOC_FAILED)
    return false;
  check(status, call);
  return true;
}

bool is_sized(cusolverStatus_t status, std::string_view call) {
  return status != CUSOLVER_STATUS_INVALID_VALUE && is_accepted(status, call);
}

Tensor workspace(int length, const Tensor& x) {
  try {
    return x.empty_like({std::max(length, 1)});
  } catch (const OutOfMemory&) {
    return {};
  }
}

}  // namespace tapegrad::backends::cuda::cusolver
