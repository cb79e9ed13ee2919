// Copies between devices.
#include "backends/cuda/runtime/copy.h"

#include "backends/cuda/runtime/address.h"
#include "backends/cuda/runtime/api.h"
#include "backends/cuda/runtime/pinned.h"
#include "backends/cuda/runtime/stream.h"
#include "core/base/context.h"
#include "core/dispatch/kernels.h"

namespace tapegrad::backends::cuda {
namespace {

constexpr const char* kReads = "a value is copied to the CPU, which waits for the device";
constexpr const char* kWrites = "values are copied from the CPU, as they are at that moment";

/// Copies host values that are the same in each repetition of a recorded step.
void copy_constant(const void* from, Tensor& y, size_t bytes) {
  const cudaStream_t stream = stream_of(y);
  if (const void* live = live_value(from, bytes))
    TG_CUDA(cudaMemcpyAsync(address_of(y), live, bytes, cudaMemcpyDeviceToDevice, stream));
  else
    copy_to_device(from, address_of(y), bytes, y.device());
}

void from_host(const Tensor& x, Tensor& y, size_t bytes) {
  if (detail::context.is_making_constant) return copy_constant(address_of(x), y, bytes);
  stop_recording(kWrites);
  copy_to_device(x, address_of(y), bytes, y.device());
}

void to_peer(const Tensor& x, Tensor& y, size_t bytes) {
  stop_recording("a value is copied to another device");
  const std::byte* source = address_of(x);  // unpacked by now, and on x's device
  const cudaStream_t from = stream_of(x), to = stream_of(y);
  order(from, x.device(), to, y.device());
  stream_of(y);
  TG_CUDA(
      cudaMemcpyPeerAsync(address_of(y), y.device().index, source, x.device().index, bytes, to));
  order(to, y.device(), from, x.device());  // x's memory must not be reused before the copy
}

}  // namespace

void copy_to_host(const Tensor& x, void* to) {
  stop_recording(kReads);
  const cudaStream_t stream = stream_of(x);
  const size_t bytes = size_t(x.numel() * size_of(x.dtype()));
  TG_CUDA(cudaMemcpyAsync(to, address_of(x), bytes, cudaMemcpyDeviceToHost, stream));
  TG_CUDA(cudaStreamSynchronize(stream));
}

void copy_from_host(const void* from, Tensor& y) {
  copy_constant(from, y, size_t(y.numel() * size_of(y.dtype())));
}

void register_copy() {
  set<kernels::transfer>(kAllTypes, [](auto, const Tensor& x, Tensor& y) {
    const size_t bytes = size_t(x.numel() * size_of(x.dtype()));
    if (bytes == 0) return;
    if (y.device().type == DeviceType::kCpu)
      copy_to_host(x, address_of(y));
    else if (x.device().type == DeviceType::kCpu)
      from_host(x, y, bytes);
    else
      to_peer(x, y, bytes);
  });
}

}  // namespace tapegrad::backends::cuda
