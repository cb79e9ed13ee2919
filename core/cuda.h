// CUDA devices: what there is, and the order in which they work.
//
// A device runs what it is given later than the call that gave it, in the order of a stream. Every
// thread has a current stream on each device, at first the one that all share; ops go there.
// Reading a value (item(), to(cpu)) waits for it. Nothing here is needed to train a model.
//
//   if (!cuda::is_available()) std::cout << cuda::why_unavailable() << '\n';
//   cuda::synchronize();                        // before a clock is read
//   {
//     const cuda::StreamGuard side(cuda::Stream::create());
//     ...                                       // these ops go to the side stream
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

/// A call of a CUDA library failed. After an error of a kernel (an illegal address, say) the device
/// can no longer be used by this process.
struct CudaError : Error {
  using Error::Error;
};

/// Whether the library was built with CUDA and finds a device it can use; never throws.
bool is_available();
/// "built without CUDA", "no driver" ...; empty when there is a device.
std::string why_unavailable();
/// 0 when none can be used.
int device_count();

/// Waits until the device has done all it was given. DeviceError when there is no such device.
void synchronize(Device device = gpu);

/// Bytes of a device by the pools they belong to (core/base/allocator.h has their sum): number 0 is
/// the one that all share, and each recorded step has its own.
struct PoolStats {
  int64_t pool = 0;
  int64_t in_use = 0, cached = 0;
  int64_t segments = 0;  // pieces taken from the device, which these bytes are parts of
};
std::vector<PoolStats> pool_stats(Device device = gpu);
/// What holds the memory of a device, in lines of text, as an OutOfMemory error shows it.
std::string memory_summary(Device device = gpu);

/// Memory of the host by way of which values go to devices, so that nobody waits for the copy: in
/// use until a device has read it, then cached; and that of pinned tensors. empty_cache(device)
/// gives back what is cached.
MemoryStats pinned_memory_stats();

/// x in memory of the host that the system may not move: a tensor on the CPU like others, whose
/// values to(device) does not copy on the host. The device reads them itself, later than to()
/// returns: they have to stay as they are until then (synchronize(), an Event), but the tensor need
/// not live so long. x itself if it is pinned. For another device it is like any tensor. The
/// memory is kept for further tensors; empty_cache(device) gives it back.
///
///   const Variable x = cuda::pin_memory(batch);   // by a thread that reads ahead, say
///   const Variable y = x.to(gpu);                 // waits for nothing, copies nothing here
///
/// DeviceError where there is no such device, and for an x that is not on the CPU.
Variable pin_memory(const Variable& x, Device device = gpu, Where where = Where::current());
/// Whether x, or what it is a view of, was pinned for the device.
bool is_pinned(const Variable& x, Device device = gpu);

class Event;

/// A queue of work on one device; copies mean the same queue. Queues are never destroyed: create()
/// gives one of 32 a device in turn.
class Stream {
 public:
  static Stream create(Device device = gpu);

  Device device() const { return device_; }
  void* native() const { return native_; }  // a cudaStream_t

  void synchronize() const;  // waits for what was given so far
  bool is_idle() const;
  /// What is given to this stream from now on waits until the event has come; the caller does not.
  void wait(const Event& event) const;

  bool operator==(const Stream&) const = default;

 private:
  friend Stream current_stream(Device device);
  Stream(Device device, void* native) : device_(device), native_(native) {}

  Device device_;
  void* native_;
};

/// Where this thread's ops on the device go.
Stream current_stream(Device device = gpu);

/// The stream is the current one of this thread and its device until the scope ends.
///
/// Memory freed in one stream is reused by that stream alone: hand a tensor to another stream only
/// with an Event between, and keep it until the other stream is done with it.
class StreamGuard {
 public:
  explicit StreamGuard(Stream stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Stream previous_;
};

/// A point in a stream's work.
class Event {
 public:
  explicit Event(Device device = gpu);

  void record();  // in the current stream of the device
  void record(const Stream& stream);
  bool has_come() const;  // true also when it was never recorded
  void synchronize() const;
  /// Milliseconds from this event to a later one; both are waited for.
  float elapsed_ms(const Event& later) const;

  Device device() const { return device_; }
  void* native() const { return native_.get(); }  // a cudaEvent_t

 private:
  Device device_;
  std::shared_ptr<void> native_;
};

}  // namespace tapegrad::cuda
