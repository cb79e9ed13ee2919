// Devices, streams, events, graphs and launches of the CUDA runtime API, as far as the backend uses
// them.
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>

#include "state.h"

namespace coh {
namespace {

using Work = std::function<void()>;
using Recorded = std::vector<Work>;

struct Event {
  Stream* stream = nullptr;
  std::size_t position = 0;
  std::shared_ptr<double> seconds = std::make_shared<double>(0);  // when the stream came to it
};

// The clock of events. It stands still except while kernels and copies run, if these have a cost.
std::optional<double> cost_of_work;  // of work that is enqueued from now on
double seconds_of_work = 0;

double clock_of_events() {
  if (cost_of_work) return seconds_of_work;
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

thread_local int device = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local cudaStream_t capturing = nullptr;  // at most one capture per thread
thread_local bool broken = false;               // by a call that is illegal during capture
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

std::vector<std::unique_ptr<Stream>>& streams() {
  static auto& all = *new std::vector<std::unique_ptr<Stream>>;
  return all;
}
Stream& default_stream(int device) {
  static auto& all = *new std::map<int, Stream*>;
  Stream*& stream = all[device];
  if (stream == nullptr) {
    streams().push_back(std::make_unique<Stream>());
    stream = streams().back().get();
    stream->device = device;
  }
  return *stream;
}

bool is_lazy() {
  static const bool lazy = std::getenv("COH_LAZY") != nullptr;
  return lazy;
}

void drain(Stream& s, std::size_t upto = ~std::size_t{0}) {
  const std::lock_guard lock(device_lock);
  while (!s.pending.empty() && s.done < upto) {
    const Work work = std::move(s.pending.front());
    s.pending.pop_front();
    ++s.done;
    const Access access;
    work();
  }
}

int multiprocessors() {
  const char* text = std::getenv("COH_MULTIPROCESSORS");
  return text ? std::atoi(text) : 4;
}

Recorded* recorded(void* graph) { return static_cast<Recorded*>(graph); }

}  // namespace

std::recursive_mutex device_lock;
Observer* observer = nullptr;
bool skips_arithmetic = false;

Stream& to_stream(cudaStream_t stream) {
  const std::lock_guard lock(device_lock);
  return stream ? *reinterpret_cast<Stream*>(stream) : default_stream(device);
}
bool is_capturing() { return capturing != nullptr; }
bool breaks_capture() {
  if (capturing == nullptr || capture_mode == cudaStreamCaptureModeRelaxed) return false;
  return broken = true;
}
void drain_all() {
  const std::lock_guard lock(device_lock);
  for (std::size_t i = 0; i < streams().size(); ++i) drain(*streams()[i]);
}
int device_count() {
  static const int count = [] {
    const char* text = std::getenv("COH_DEVICES");
    return text ? std::atoi(text) : 2;
  }();
  return count;
}
int current_device() { return device; }
cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

void set_cost_of_work(std::optional<double> seconds) { cost_of_work = seconds; }

cudaError_t enqueue(cudaStream_t stream, Work work, bool takes_time) {
  if (observer != nullptr) observer->on_library_call();
  return submit(stream, std::move(work), takes_time);
}

cudaError_t submit(cudaStream_t stream, Work work, bool takes_time) {
  const std::lock_guard lock(device_lock);
  if (takes_time && cost_of_work)
    work = [work = std::move(work), cost = *cost_of_work] {
      work();
      seconds_of_work += cost;
    };
  Stream& s = to_stream(stream);
  if (s.device != device) return remember(cudaErrorInvalidResourceHandle);
  if (s.capture) {
    s.capture->push_back(std::move(work));
    return cudaSuccess;
  }
  s.pending.push_back(std::move(work));
  if (!is_lazy()) drain(s);
  return cudaSuccess;
}

cudaError_t launch(void (*kernel)(), Call call, const Parameter* parameters, int count, dim3 grid,
                   dim3 block, void** arguments, std::size_t shared_bytes, cudaStream_t stream) {
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || grid.x == 0 || grid.y == 0 || grid.z == 0 ||
      grid.x > 2147483647u || grid.y > 65535 || grid.z > 65535 || shared_bytes > 48 * 1024)
    return remember(cudaErrorInvalidConfiguration);
  struct alignas(64) Line {
    unsigned char bytes[64];
  };
  std::vector<std::size_t> offsets;
  std::size_t end = 0;
  for (int i = 0; i < count; ++i) {
    if (parameters[i].is_clean)
      check_argument(arguments[i], parameters[i].size, "a kernel argument");
    end = (end + parameters[i].align - 1) / parameters[i].align * parameters[i].align;
    offsets.push_back(end);
    end += parameters[i].size;
  }
  std::vector<Line> copy((end + 63) / 64);  // copied at the call, as the driver does
  auto* bytes = reinterpret_cast<unsigned char*>(copy.data());
  for (int i = 0; i < count; ++i) std::memcpy(bytes + offsets[i], arguments[i], parameters[i].size);
  return submit(stream, [=, copy = std::move(copy), offsets = std::move(offsets)]() mutable {
    std::vector<void*> pointers;
    for (std::size_t o : offsets)
      pointers.push_back(reinterpret_cast<unsigned char*>(copy.data()) + o);
    if (observer != nullptr) observer->begin_kernel(kernel, grid, block, shared_bytes);
    run_grid(grid, block, shared_bytes, "kernel", [&] { call(kernel, pointers.data()); });
    if (observer != nullptr) observer->end_kernel();
  });
}

}  // namespace coh

using namespace coh;

extern "C" {

// ---- devices
cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return *count > 0 ? cudaSuccess : remember(cudaErrorNoDevice);
}
cudaError_t cudaSetDevice(int d) {
  if (d < 0 || d >= device_count()) return remember(cudaErrorInvalidDevice);
  device = d;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* d) {
  *d = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = multiprocessors();
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    default:
      *value = 0;
  }
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "cuda_on_host");
  properties->major = 9;
  properties->totalGlobalMem = std::size_t(8) << 30;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
    default:
      return "error from cuda_on_host";
  }
}
cudaError_t cudaDeviceSynchronize() {
  if (breaks_capture()) return remember(cudaErrorStreamCaptureUnsupported);
  if (observer != nullptr) observer->on_wait();
  drain_all();
  return cudaSuccess;
}

// ---- streams and events
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::lock_guard lock(device_lock);
  streams().push_back(std::make_unique<Stream>());
  streams().back()->device = device;
  *stream = reinterpret_cast<cudaStream_t>(streams().back().get());
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (to_stream(stream).capture && breaks_capture())
    return remember(cudaErrorStreamCaptureUnsupported);
  if (observer != nullptr) observer->on_wait();
  drain(to_stream(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return to_stream(stream).pending.empty() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = reinterpret_cast<cudaEvent_t>(new coh::Event);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<coh::Event*>(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(device_lock);
  Stream& s = to_stream(stream);
  auto& e = *reinterpret_cast<coh::Event*>(event);
  e = {};
  const Work come = [seconds = e.seconds] { *seconds = clock_of_events(); };
  if (s.capture)
    s.capture->push_back(come);
  else
    s.pending.push_back(come);
  e.stream = &s;
  e.position = s.done + s.pending.size();
  if (!is_lazy()) drain(s);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const auto& e = *reinterpret_cast<coh::Event*>(event);
  return e.stream == nullptr || e.stream->done >= e.position ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const auto& e = *reinterpret_cast<coh::Event*>(event);
  if (observer != nullptr && cudaEventQuery(event) != cudaSuccess) observer->on_wait();
  if (e.stream) drain(*e.stream, e.position);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  const auto &begin = *reinterpret_cast<coh::Event*>(from),
             &end = *reinterpret_cast<coh::Event*>(to);
  *ms = float((*end.seconds - *begin.seconds) * 1e3);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const coh::Event e = *reinterpret_cast<coh::Event*>(event);
  return submit(
      stream,
      [e] {
        if (e.stream) drain(*e.stream, e.position);
      },
      /*takes_time=*/false);
}

// ---- graphs
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream == nullptr) return remember(cudaErrorStreamCaptureUnsupported);
  to_stream(stream).capture = new Recorded;
  capturing = stream;
  broken = false;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  Recorded* made = std::exchange(to_stream(stream).capture, nullptr);
  capturing = nullptr;
  if (std::exchange(broken, false)) {
    delete std::exchange(made, nullptr);
    *graph = nullptr;
    return remember(cudaErrorStreamCaptureInvalidated);
  }
  *graph = reinterpret_cast<cudaGraph_t>(made);
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  *executable = reinterpret_cast<cudaGraphExec_t>(new Recorded(*recorded(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  for (const Work& work : *recorded(executable))
    if (const cudaError_t error = submit(stream, work, /*takes_time=*/false)) return error;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete recorded(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete recorded(executable);
  return cudaSuccess;
}

}  // extern "C"
