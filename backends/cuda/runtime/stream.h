// Devices and the streams that this thread works in.
#pragma once

#include <cuda_runtime_api.h>

#include <mutex>
#include <string>
#include <string_view>

#include "core/base/device.h"
#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

inline constexpr int kMaxDevices = 16;

/// What was found when CUDA was first asked for.
struct Devices {
  int count = 0;
  std::string reason;                // why there is none
  int multiprocessors[kMaxDevices];  // of each
  int generation[kMaxDevices];       // the first number of the compute capability
};
const Devices& devices();

/// Makes the device this thread's and gives the thread's current stream on it. DeviceError when
/// there is no such device.
cudaStream_t stream_of(tapegrad::Device device);
inline cudaStream_t stream_of(const Tensor& x) { return stream_of(x.device()); }

/// DeviceError, naming `who`, unless there is such a CUDA device, which becomes this thread's.
void require_cuda(tapegrad::Device device, std::string_view who);

/// Makes a stream this thread's current one on the device. Returns the one before.
cudaStream_t set_stream(tapegrad::Device device, cudaStream_t stream);

/// Whether the program has made streams of its own on the device.
bool has_side_streams(tapegrad::Device device);

/// The one stream of the device that graphs are recorded in, and its lock.
struct RecordingStream {
  cudaStream_t stream = nullptr;
  std::mutex mutex;
};
RecordingStream& recording_stream(tapegrad::Device device);

/// Makes what is given to `later` from now on wait for what was given to `earlier`.
void order(cudaStream_t earlier, tapegrad::Device device, cudaStream_t later,
           tapegrad::Device later_device);

}  // namespace tapegrad::backends::cuda
