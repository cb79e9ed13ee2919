#include "backends/cuda/runtime/stream.h"

#include "backends/cuda/cudnn/available.h"
#include "backends/cuda/runtime/api.h"
#include "core/base/error.h"
#include "core/base/internal/mutex.h"
#include "core/cuda.h"
#include "core/dispatch/internal/backends.h"
#include "core/tape/internal/call_line.h"

namespace tapegrad {
namespace backends::cuda {
namespace {

constexpr int kSideStreams = 32;

Devices find_devices() {
  Devices found;
  const cudaError_t status = cudaGetDeviceCount(&found.count);
  if (status != cudaSuccess || found.count == 0) {
    cudaGetLastError();
    found.count = 0;
    found.reason = status == cudaErrorInsufficientDriver
                       ? "there is no NVIDIA driver, or it is older than the CUDA library"
                   : status == cudaSuccess ? "there is no CUDA device"
                                           : cudaGetErrorString(status);
    return found;
  }
  if (found.count > kMaxDevices) found.count = kMaxDevices;
  for (int i = 0; i < found.count; ++i) {
    if (cudaDeviceGetAttribute(&found.multiprocessors[i], cudaDevAttrMultiProcessorCount, i) !=
        cudaSuccess)
      found.multiprocessors[i] = 1;
    if (cudaDeviceGetAttribute(&found.generation[i], cudaDevAttrComputeCapabilityMajor, i) !=
        cudaSuccess)
      found.generation[i] = 0;
  }
  return found;
}

void check_index(tapegrad::Device device, std::string_view who) {
  if (const std::string reason = why_unavailable(device.index); !reason.empty())
    fail<DeviceError>(who, ": ", device, ": ", reason);
}

cudaStream_t create_stream() {
  cudaStream_t stream;
  TG_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

/// The streams of one device. Never destroyed: tensors may be destroyed after all other objects.
struct Streams {
  Mutex mutex;
  cudaStream_t shared ABSL_GUARDED_BY(mutex) = nullptr;  // initial stream of every thread
  cudaStream_t side[kSideStreams] ABSL_GUARDED_BY(mutex) = {};
  int next ABSL_GUARDED_BY(mutex) = 0;
  RecordingStream recording;
};
Streams& streams(int device) {
  static auto* all = new Streams[kMaxDevices];
  return all[device];
}

/// Returns the stream that threads share. The device must be current for this thread.
cudaStream_t shared_stream(int device) {
  Streams& s = streams(device);
  const MutexLock lock(s.mutex);
  if (s.shared == nullptr) s.shared = create_stream();
  return s.shared;
}

thread_local int current_device = -1;
thread_local cudaStream_t current[kMaxDevices] = {};

void use(tapegrad::Device device) {
  if (current_device == device.index) [[likely]]
    return;
  check_index(device, current_op());
  TG_CUDA(cudaSetDevice(device.index));
  current_device = device.index;
}

cudaEvent_t create_event(unsigned flags) {
  cudaEvent_t event;
  TG_CUDA(cudaEventCreateWithFlags(&event, flags));
  return event;
}

}  // namespace

const Devices& devices() {
  static const Devices found = find_devices();
  return found;
}

std::string why_unavailable(int index) {
  const Devices& found = devices();
  if (found.count == 0) return found.reason;
  if (index < found.count) return "";
  return "there is no CUDA device " + std::to_string(index) + ", of " + std::to_string(found.count);
}

cudaStream_t stream_of(tapegrad::Device device) {
  use(device);
  cudaStream_t& stream = current[device.index];
  if (stream == nullptr) stream = shared_stream(device.index);
  return stream;
}

void require_cuda(tapegrad::Device device, std::string_view who) {
  if (device.type != DeviceType::kCuda)
    fail<DeviceError>(who, ": ", device, " is not a CUDA device");
  check_index(device, who);
  use(device);
}

cudaStream_t set_stream(tapegrad::Device device, cudaStream_t stream) {
  const cudaStream_t before = stream_of(device);
  current[device.index] = stream;
  return before;
}

bool has_side_streams(tapegrad::Device device) {
  Streams& s = streams(device.index);
  const MutexLock lock(s.mutex);
  return s.side[0] != nullptr;
}

RecordingStream& recording_stream(tapegrad::Device device) {
  use(device);
  Streams& s = streams(device.index);
  const MutexLock lock(s.mutex);
  if (s.recording.stream == nullptr) s.recording.stream = create_stream();
  return s.recording;
}

void order(cudaStream_t earlier, tapegrad::Device device, cudaStream_t later,
           tapegrad::Device later_device) {
  if (earlier == later) return;
  use(device);
  const cudaEvent_t event = create_event(cudaEventDisableTiming);
  TG_CUDA(cudaEventRecord(event, earlier));
  use(later_device);
  TG_CUDA(cudaStreamWaitEvent(later, event, 0));
  TG_CUDA(cudaEventDestroy(event));
}

std::string describe() {
  const Devices& found = devices();
  if (found.count == 0) return "cuda: not available (" + found.reason + ")\n";
  std::string text;
  for (int i = 0; i < found.count; ++i) {
    cudaDeviceProp properties;
    TG_CUDA(cudaGetDeviceProperties(&properties, i));
    text += "cuda:" + std::to_string(i) + ": " + properties.name + ", compute capability " +
            std::to_string(properties.major) + '.' + std::to_string(properties.minor) + ", " +
            std::to_string(properties.totalGlobalMem >> 30) + " GiB\n";
  }
  int runtime = 0, driver = 0;
  TG_CUDA(cudaRuntimeGetVersion(&runtime));
  TG_CUDA(cudaDriverGetVersion(&driver));
  const auto version = [](int v) {
    return std::to_string(v / 1000) + '.' + std::to_string(v % 1000 / 10);
  };
  return text + "CUDA: " + version(runtime) + ", driver for " + version(driver) + "; " +
         describe_cudnn() + '\n';
}

}  // namespace backends::cuda

// Public functions.
namespace cuda {

using namespace backends::cuda;

namespace {

cudaStream_t native(const Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }
cudaEvent_t native(const Event& event) { return static_cast<cudaEvent_t>(event.native()); }

}  // namespace

bool is_available() { return devices().count > 0; }
std::string why_unavailable() { return devices().reason; }
int device_count() { return devices().count; }

void synchronize(Device device, Where where) {
  const ErrorLine line(where);
  require_cuda(device, "cuda::synchronize");
  stop_recording("it waits for the device");
  TG_CUDA(cudaDeviceSynchronize());
}

Stream Stream::create(Device device) {
  require_cuda(device, "cuda::Stream");
  Streams& s = streams(device.index);
  const MutexLock lock(s.mutex);
  cudaStream_t& side = s.side[s.next++ % kSideStreams];
  if (side == nullptr) side = create_stream();
  return Stream(device, side);
}
void Stream::synchronize() const {
  stop_recording("it waits for a stream");
  use(device_);
  TG_CUDA(cudaStreamSynchronize(tapegrad::cuda::native(*this)));
}
bool Stream::is_idle() const {
  stop_recording("it asks whether a stream is idle");
  use(device_);
  const cudaError_t status = cudaStreamQuery(tapegrad::cuda::native(*this));
  if (status != cudaErrorNotReady) check(status, "cudaStreamQuery");
  return status == cudaSuccess;
}
void Stream::wait(const Event& event) const {
  use(device_);
  TG_CUDA(cudaStreamWaitEvent(tapegrad::cuda::native(*this), tapegrad::cuda::native(event), 0));
}

Stream current_stream(Device device) {
  require_cuda(device, "cuda::current_stream");
  return Stream(device, stream_of(device));
}

StreamGuard::StreamGuard(Stream stream) : previous_(current_stream(stream.device())) {
  current[stream.device().index] = native(stream);
}
StreamGuard::~StreamGuard() { current[previous_.device().index] = native(previous_); }

Event::Event(Device device) : device_(device) {
  require_cuda(device, "cuda::Event");
  native_ = std::shared_ptr<void>(create_event(cudaEventDefault), [](void* event) {
    cudaEventDestroy(static_cast<cudaEvent_t>(event));  // errors are ignored
  });
}
void Event::record() { record(current_stream(device_)); }
void Event::record(const Stream& stream) {
  use(stream.device());
  TG_CUDA(cudaEventRecord(tapegrad::cuda::native(*this), tapegrad::cuda::native(stream)));
}
bool Event::query() const {
  stop_recording("it asks for an event");
  const cudaError_t status = cudaEventQuery(tapegrad::cuda::native(*this));
  if (status != cudaErrorNotReady) check(status, "cudaEventQuery");
  return status == cudaSuccess;
}
void Event::synchronize() const {
  stop_recording("it waits for an event");
  TG_CUDA(cudaEventSynchronize(tapegrad::cuda::native(*this)));
}
float Event::elapsed_ms(const Event& later) const {
  synchronize();
  later.synchronize();
  float ms = 0;
  TG_CUDA(cudaEventElapsedTime(&ms, tapegrad::cuda::native(*this), tapegrad::cuda::native(later)));
  return ms;
}

}  // namespace cuda
}  // namespace tapegrad
