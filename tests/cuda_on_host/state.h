// What the parts of cuda_on_host share.
//
// Environment: COH_ORDER=forward|reverse|random[:seed], the order in which the threads of a block
// run between two barriers; COH_LAZY=1, stream work waits for a synchronisation; COH_PROTECT=1,
// host code that touches device memory faults; COH_DEVICES (2) and COH_MEMORY (bytes of each).
#pragma once

#include <deque>
#include <functional>
#include <mutex>
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
bool is_capturing();    // this thread
bool breaks_capture();  // whether a call that is not recorded does so
bool in_kernel();
void drain_all();

int device_count();
int current_device();
/// The device whose memory this is, or -1 for host memory.
int device_of(const void* p);
bool is_pinned(const void* p);

/// While one lives, device memory may be touched.
class Access {
 public:
  Access();
  ~Access();
};

cudaError_t remember(cudaError_t error);  // for cudaGetLastError

}  // namespace coh
