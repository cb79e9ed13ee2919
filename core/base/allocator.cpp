#include "core/base/allocator.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <unordered_map>
#include <vector>

#ifdef __linux__
#include <sys/mman.h>
#endif

#include "core/base/error.h"
#include "core/base/internal/mutex.h"
#include "core/base/internal/sanitizer.h"
#include "core/dispatch/internal/backends.h"

namespace tapegrad {
namespace {

constexpr size_t kAlignment = 64;
/// Alignment of blocks of at least kLargeBlock bytes. A processor compares the low 12 bits of the
/// addresses of a load and of the stores before it. If a result lies 64 to 256 bytes behind an
/// operand in these bits, as consecutive blocks of malloc() do, each load waits for a store.
constexpr size_t kLargeAlignment = 512, kLargeBlock = 8192;
constexpr size_t kHugePage = size_t(2) << 20;

/// Eight size classes between consecutive powers of two: at most an eighth of a block is wasted.
size_t size_class(size_t bytes) {
  if (bytes <= 1024) return 1024;
  const size_t step = std::bit_floor(bytes - 1) / 8;
  return (bytes + step - 1) / step * step;
}

void* system_allocate(size_t bytes) {
  const bool huge = bytes >= 2 * kHugePage;
  const size_t small = bytes >= kLargeBlock ? kLargeAlignment : kAlignment;
  void* block = std::aligned_alloc(huge ? kHugePage : small,
                                   huge ? (bytes + kHugePage - 1) / kHugePage * kHugePage : bytes);
#ifdef __linux__
  if (huge && block != nullptr) madvise(block, bytes, MADV_HUGEPAGE);  // a hint that may be refused
#endif
  return block;
}

void system_free(void* block, size_t size) {
  allow_access(block, size);
  std::free(block);
}

class CpuAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes, Device) override {
    const MutexLock lock(mutex_);
    if (bytes > size_t(1) << 62) out_of_memory(bytes);
    const size_t size = size_class(bytes);
    void* block = take(size);
    stats_.in_use += int64_t(size);
    stats_.peak = std::max(stats_.peak, stats_.in_use);
    ++stats_.allocations;
    allow_access(block, bytes);
    forbid_access(static_cast<char*>(block) + bytes, size - bytes);
    return block;
  }

  void deallocate(void* block, size_t bytes, Device) noexcept override {
    const size_t size = size_class(bytes);
    const MutexLock lock(mutex_);
    stats_.in_use -= int64_t(size);
    try {
      free_[size].push_back(block);
      stats_.cached += int64_t(size);
      forbid_access(block, size);
    } catch (const std::bad_alloc&) {
      system_free(block, size);
    }
  }

  MemoryStats stats(Device) const override {
    const MutexLock lock(mutex_);
    return stats_;
  }
  void reset_peak(Device) override {
    const MutexLock lock(mutex_);
    stats_.peak = stats_.in_use;
  }
  void set_limit(int64_t bytes, Device) override {
    const MutexLock lock(mutex_);
    stats_.limit = bytes;
  }
  void empty_cache(Device) override {
    const MutexLock lock(mutex_);
    release_cache();
  }

 private:
  void* take(size_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (auto found = free_.find(size); found != free_.end() && !found->second.empty()) {
      void* block = found->second.back();
      found->second.pop_back();
      stats_.cached -= int64_t(size);
      return block;
    }
    if (!fits(size)) release_cache();
    void* block = fits(size) ? system_allocate(size) : nullptr;
    if (block == nullptr && stats_.cached > 0) {
      release_cache();
      block = fits(size) ? system_allocate(size) : nullptr;
    }
    if (block == nullptr) out_of_memory(size);
    ++stats_.system_allocations;
    return block;
  }

  bool fits(size_t size) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stats_.limit < 0 || stats_.in_use + stats_.cached + int64_t(size) <= stats_.limit;
  }

  void release_cache() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (auto& [size, blocks] : free_)
      for (void* block : blocks) system_free(block, size);
    free_.clear();
    stats_.cached = 0;
  }

  [[noreturn]] void out_of_memory(size_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const std::string limit =
        stats_.limit < 0 ? "no limit" : "limit " + std::to_string(stats_.limit);
    fail<OutOfMemory>("cpu: out of memory: ", bytes, " bytes wanted, ", stats_.in_use,
                      " in use, peak ", stats_.peak, ", ", limit);
  }

  mutable Mutex mutex_;
  std::unordered_map<size_t, std::vector<void*>> free_ ABSL_GUARDED_BY(mutex_);
  MemoryStats stats_ ABSL_GUARDED_BY(mutex_);
};

/// Never destroyed: tensors in static variables may be destroyed after all other objects.
CpuAllocator& cpu_allocator() {
  static CpuAllocator& instance = *new CpuAllocator;
  return instance;
}

constinit std::atomic<Allocator*> allocators[kDeviceTypeCount]{};

/// Returns the allocator of a device other than the CPU; null if it has none.
Allocator* find_allocator(DeviceType type) {
  Allocator* set = allocators[int(type)].load(std::memory_order_acquire);
  if (set == nullptr && type == DeviceType::kCuda) return backends::cuda::allocator();
  return set;
}

}  // namespace

Allocator& allocator(DeviceType type) {
  if (type == DeviceType::kCpu) return cpu_allocator();
  Allocator* found = find_allocator(type);
  if (found == nullptr) fail<DeviceError>(why_unavailable({type, 0}));
  return *found;
}

void set_allocator(DeviceType type, Allocator* allocator) {
  if (type == DeviceType::kCpu) fail<ArgumentError>("set_allocator: the CPU has its own");
  allocators[int(type)].store(allocator, std::memory_order_release);
}

bool is_available(Device device) { return why_unavailable(device).empty(); }

std::string why_unavailable(Device device) {
  if (device.type == DeviceType::kCpu)
    return device.index == 0 ? "" : "there is one CPU device, index 0";
  if (device.type == DeviceType::kCuda) return backends::cuda::why_unavailable(device.index);
  if (find_allocator(device.type) != nullptr) return "";
  return "no allocator was set for device " + to_string(device);
}

MemoryStats memory_stats(Device device) { return allocator(device.type).stats(device); }
void reset_peak_memory(Device device) { allocator(device.type).reset_peak(device); }
void set_memory_limit(int64_t bytes, Device device) {
  allocator(device.type).set_limit(bytes, device);
}
void empty_cache(Device device) { allocator(device.type).empty_cache(device); }

}  // namespace tapegrad
