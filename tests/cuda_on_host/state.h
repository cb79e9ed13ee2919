// Shared by the parts of cuda_on_host.
//
// Environment: COH_ORDER=forward|reverse|random[:seed], the order in which the threads of a block
// run between two barriers; COH_LAZY=1, stream work waits for a synchronisation; COH_PROTECT=1,
// host code that touches device memory faults; COH_DEVICES, the number of devices (2); COH_MEMORY,
// bytes per device; COH_MULTIPROCESSORS, of a device (4).
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "include/cuda_runtime.h"

namespace coh {

/// Runs body() once for every thread of the grid.
void run_grid(dim3 grid, dim3 block, std::size_t dynamic_shared, const char* name,
              const std::function<void()>& body);

struct Stream {
  int device = 0;
  std::deque<std::function<void()>> pending;
  std::size_t done = 0;
  std::vector<std::function<void()>>* capture = nullptr;
};
Stream& to_stream(cudaStream_t stream);  // null is the device's default stream

extern std::recursive_mutex device_lock;
bool is_capturing();    // whether this thread is capturing
bool breaks_capture();  // reports a call that is illegal during capture
void drain_all();

/// Sets the seconds that each kernel and copy takes that is enqueued from now on, wherever it runs:
/// the clock of events then advances by nothing else. Without a number it is the host's clock.
void set_cost_of_work(std::optional<double> seconds);

/// Observes the device's work. Without lazy streams, work runs when it is enqueued.
class Observer {
 public:
  virtual void begin_kernel(void (*kernel)(), dim3 grid, dim3 block, std::size_t shared) = 0;
  virtual void end_kernel() = 0;
  virtual void on_library_call() = 0;  // of cuBLAS, cuDNN, CUB, ...
  virtual void on_copy(std::size_t bytes) = 0;
  virtual void on_wait() = 0;  // the host waits for a stream, an event or the device

 protected:
  ~Observer() = default;
};
extern Observer* observer;  // null for none

/// Products and convolutions leave their results as they are: for counts that do not depend on
/// values.
extern bool skips_arithmetic;

/// enqueue() for the runtime's own work: it is no call of a library.
cudaError_t submit(cudaStream_t stream, std::function<void()> work, bool takes_time = true);

int device_count();
int current_device();
/// Device that owns this memory, or -1 for host memory.
int device_of(const void* p);
bool is_pinned(const void* p);
/// Returns the buffer of device memory that contains p; empty if there is none.
std::span<const char> buffer_of(const void* p);

/// Permits access to device memory during its lifetime.
class Access {
 public:
  Access();
  ~Access();
};

cudaError_t remember(cudaError_t error);  // for cudaGetLastError

}  // namespace coh
