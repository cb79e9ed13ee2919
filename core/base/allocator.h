// Memory allocation for tensors. Each device type has one Allocator. The CPU allocator caches freed
// blocks, because a fresh large block costs a page fault per 4 KiB.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/device.h"

namespace tapegrad {

/// Use of a device's memory. Sizes are in bytes and rounded up to the allocator's size classes.
/// Tensors smaller than 1 KiB use the small-object pool (core/base/free_list.h) and are not
/// counted.
struct MemoryStats {
  int64_t in_use = 0;
  int64_t peak = 0;                // largest in_use since the start or reset_peak_memory()
  int64_t cached = 0;              // freed blocks kept for reuse
  int64_t limit = -1;              // upper bound of in_use + cached; -1 for none
  int64_t allocations = 0;         // blocks handed out
  int64_t system_allocations = 0;  // blocks of `allocations` that came from the system
};

class Allocator {
 public:
  virtual ~Allocator() = default;

  /// Returns uninitialised memory, aligned to 64 bytes. If the memory is exhausted, empties the
  /// cache and tries again, then throws OutOfMemory.
  virtual void* allocate(size_t bytes, Device device) = 0;
  /// `bytes` must equal the size passed to allocate().
  virtual void deallocate(void* block, size_t bytes, Device device) noexcept = 0;

  virtual MemoryStats stats(Device device) const = 0;
  virtual void reset_peak(Device device) = 0;
  virtual void set_limit(int64_t bytes, Device device) = 0;
  virtual void empty_cache(Device device) = 0;
};

/// Returns the allocator of a device type. Throws DeviceError if it has none.
Allocator& allocator(DeviceType type);
/// Registers the allocator of a device type from outside the library. The allocator must outlive
/// every tensor on such a device.
void set_allocator(DeviceType type, Allocator* allocator);

MemoryStats memory_stats(Device device = cpu);
/// Sets MemoryStats::peak to the bytes in use.
void reset_peak_memory(Device device = cpu);
/// Limits the bytes in use plus the bytes cached; -1 removes the limit.
void set_memory_limit(int64_t bytes, Device device = cpu);
/// Returns cached blocks to the system.
void empty_cache(Device device = cpu);

}  // namespace tapegrad
