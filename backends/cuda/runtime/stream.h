// Devices, and the current streams of a thread.
#pragma once

#include <cuda_runtime_api.h>

#include <mutex>
#include <string>
#include <string_view>

#include "core/base/device.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

inline constexpr int kMaxDevices = 16;

/// The devices found at the first use of CUDA.
struct Devices {
  int count = 0;
  std::string reason;                // why there are none
  int multiprocessors[kMaxDevices];  // of each device
  int generation[kMaxDevices];       // major compute capability
};
const Devices& devices();

/// Makes the device current for this thread and returns the thread's current stream on it. Throws
/// DeviceError if the device does not exist.
cudaStream_t stream_of(tapegrad::Device device);
inline cudaStream_t stream_of(const Tensor& x) { return stream_of(x.device()); }

/// Makes the CUDA device current for this thread. Throws DeviceError, naming `who`, if it does not
/// exist.
void require_cuda(tapegrad::Device device, std::string_view who);

/// Sets this thread's current stream on the device and returns the previous one.
cudaStream_t set_stream(tapegrad::Device device, cudaStream_t stream);

/// Returns whether the program has created streams on the device.
bool has_side_streams(tapegrad::Device device);

/// The stream of a device in which graphs are recorded, and its lock.
struct RecordingStream {
  cudaStream_t stream = nullptr;
  std::mutex mutex;
};
RecordingStream& recording_stream(tapegrad::Device device);

/// Makes work enqueued in `later` after this call wait for the work already enqueued in `earlier`.
void order(cudaStream_t earlier, tapegrad::Device device, cudaStream_t later,
           tapegrad::Device later_device);

}  // namespace tapegrad::backends::cuda
