// Shared by the parts of cuda_on_host.
//
// Environment: COH_ORDER=forward|reverse|random[:seed], the order in which the threads of a block
// run between two barriers; COH_LAZY=1, stream work waits for a synchronisation; COH_PROTECT=1,
// host code that touches device memory faults; COH_DEVICES, the number of devices (2); COH_MEMORY,
// bytes per device.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <optional>
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
bool in_kernel();
void drain_all();

/// Sets the seconds that each kernel and copy takes that is enqueued from now on, wherever it runs:
/// the clock of events then advances by nothing else. Without a number it is the host's clock.
void set_cost_of_work(std::optional<double> seconds);

int device_count();
int current_device();
/// Device that owns this memory, or -1 for host memory.
int device_of(const void* p);
bool is_pinned(const void* p);

/// Permits access to device memory during its lifetime.
class Access {
 public:
  Access();
  ~Access();
};

cudaError_t remember(cudaError_t error);  // for cudaGetLastError

}  // namespace coh
