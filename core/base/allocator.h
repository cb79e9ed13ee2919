// Memory for tensors. Each device type has one Allocator; the CPU's keeps freed blocks for reuse,
// since a fresh large block costs a page fault per 4 KiB.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/device.h"

namespace tapegrad {

/// Bytes as the allocator hands them out (rounded up to its size classes). Tensors of less than a
/// kilobyte live in the small-object pool of core/base/free_list.h and are not counted.
struct MemoryStats {
  int64_t in_use = 0;
  int64_t peak = 0;                // the largest in_use since the start or reset_peak_memory()
  int64_t cached = 0;              // freed, kept for reuse
  int64_t limit = -1;              // of in_use + cached; -1 for none
  int64_t allocations = 0;         // blocks handed out
  int64_t system_allocations = 0;  // of them, taken from the system
};

class Allocator {
 public:
  virtual ~Allocator() = default;

  /// 64-byte aligned, uninitialised. OutOfMemory, after the cache was emptied and tried again.
  virtual void* allocate(size_t bytes, Device device) = 0;
  /// `bytes` as given to allocate().
  virtual void deallocate(void* block, size_t bytes, Device device) noexcept = 0;

  virtual MemoryStats stats(Device device) const = 0;
  virtual void reset_peak(Device device) = 0;
  virtual void set_limit(int64_t bytes, Device device) = 0;
  virtual void empty_cache(Device device) = 0;
};

/// DeviceError when the type has none.
Allocator& allocator(DeviceType type);
/// For devices from outside the library. Must outlive every tensor of the device.
void set_allocator(DeviceType type, Allocator* allocator);

MemoryStats memory_stats(Device device = cpu);
void reset_peak_memory(Device device = cpu);
/// At most this many bytes in use and cached; -1 lifts the limit.
void set_memory_limit(int64_t bytes, Device device = cpu);
/// Returns cached blocks to the system.
void empty_cache(Device device = cpu);

}  // namespace tapegrad
