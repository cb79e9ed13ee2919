// CUDA devices, streams, events and pinned memory. Training a model does not require anything from
// this header.
//
// A device runs work asynchronously, in the order of a stream. Every thread has a current stream on
// each device, initially a stream shared by all threads; ops run in the current stream. Reading a
// value (item(), to(cpu)) waits for the stream.
//
//   if (!cuda::is_available()) std::cout << cuda::why_unavailable() << '\n';
//   cuda::synchronize();                        // before reading a clock
//   {
//     const cuda::StreamGuard side(cuda::Stream::create());
//     ...                                       // these ops run in the side stream
//   }
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/device.h"
#include "core/base/error.h"
#include "core/tape/variable.h"

namespace tapegrad {
struct MemoryStats;  // core/base/allocator.h
}

namespace tapegrad::cuda {

/// Error of a call of a CUDA library. After an error inside a kernel, such as an illegal address,
/// the process can no longer use the device.
struct CudaError : Error {
  using Error::Error;
};

/// Returns whether the library was built with CUDA and finds a usable device. Never throws.
bool is_available();
/// Returns the reason, such as "built without CUDA" or "no driver"; empty if a device is available.
std::string why_unavailable();
/// Returns the number of usable devices; 0 if there is none.
int device_count();

/// Waits until the device has finished all work. Throws DeviceError if the device does not exist.
void synchronize(Device device = gpu, Where where = Where::current());

/// Memory of a device by pool, in bytes; core/base/allocator.h provides the sum. Pool 0 is the
/// shared pool; each recorded step has its own pool.
struct PoolStats {
  int64_t pool = 0;
  int64_t in_use = 0, cached = 0;
  int64_t segments = 0;  // memory areas obtained from the device, which contain these bytes
};
std::vector<PoolStats> pool_stats(Device device = gpu);
/// Returns a text that describes the use of a device's memory, as shown by OutOfMemory errors.
std::string memory_summary(Device device = gpu);

/// Returns statistics of pinned host memory: staging blocks for asynchronous copies, and pinned
/// tensors. A staging block is in use until a device has read it, and is then cached.
/// empty_cache(device) frees cached memory.
MemoryStats pinned_memory_stats();

/// Copies x to pinned host memory, which the device reads directly: to(device) then neither copies
/// on the host nor waits. Returns x if it is already pinned. The values must not be modified until
/// the device has read them (synchronize(), or an Event), but the tensor may be destroyed earlier.
/// For any other device the result is an ordinary CPU tensor. Freed memory is reused for further
/// pinned tensors; empty_cache(device) frees it.
///
///   const Variable x = cuda::pin_memory(batch);   // for example in a thread that reads ahead
///   const Variable y = x.to(gpu);                 // asynchronous, no copy on the host
///
/// Throws DeviceError if the device does not exist, and if x is not on the CPU.
Variable pin_memory(const Variable& x, Device device = gpu, Where where = Where::current());
/// Returns whether x, or the base of which it is a view, is pinned for the device.
bool is_pinned(const Variable& x, Device device = gpu);

class Event;

/// A stream: a queue of work on one device. Copies of a Stream refer to the same stream. Streams
/// are never destroyed: create() cycles through 32 streams per device.
class Stream {
 public:
  static Stream create(Device device = gpu);

  Device device() const { return device_; }
  void* native() const { return native_; }  // a cudaStream_t

  void synchronize() const;  // waits for the work enqueued so far
  bool is_idle() const;
  /// Makes work enqueued from now on wait for the event; does not block the caller.
  void wait(const Event& event) const;

  bool operator==(const Stream&) const = default;

 private:
  friend Stream current_stream(Device device);
  Stream(Device device, void* native) : device_(device), native_(native) {}

  Device device_;
  void* native_;
};

/// Returns the stream in which this thread's ops run on the device.
Stream current_stream(Device device = gpu);

/// Makes a stream current for this thread, on the stream's device, for the lifetime of the object.
///
/// Memory freed in a stream is reused only by the same stream. To hand a tensor to another stream,
/// put an Event in between, and keep the tensor until the other stream has finished with it.
class StreamGuard {
 public:
  explicit StreamGuard(Stream stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Stream previous_;
};

/// A point in the work of a stream.
class Event {
 public:
  explicit Event(Device device = gpu);

  void record();  // in the device's current stream
  void record(const Stream& stream);
  bool query() const;  // true if never recorded
  void synchronize() const;
  /// Milliseconds from this event to a later one. Waits for both.
  float elapsed_ms(const Event& later) const;

  Device device() const { return device_; }
  void* native() const { return native_.get(); }  // a cudaEvent_t

 private:
  Device device_;
  std::shared_ptr<void> native_;
};

}  // namespace tapegrad::cuda
