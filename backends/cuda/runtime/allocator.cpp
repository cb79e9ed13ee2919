// Device memory. Segments come from cudaMalloc and are kept; blocks are cut from segments and
// merged when freed. A freed block is reused in the stream that it was allocated for, whose order
// puts its last use before the next, so nothing waits. Memory of a recorded graph comes from a pool
// of its own, because the graph depends on its addresses as long as it lives.
#include "backends/cuda/runtime/allocator.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <unordered_map>

#include "absl/strings/str_format.h"

#include "backends/cuda/runtime/api.h"
#include "backends/cuda/runtime/pinned.h"
#include "backends/cuda/runtime/stream.h"
#include "core/base/error.h"
#include "core/base/internal/mutex.h"
#include "core/cuda.h"
#include "core/dispatch/internal/backends.h"

namespace tapegrad {
namespace backends::cuda {
namespace {

using tapegrad::cuda::PoolStats;

constexpr size_t kRound = 512;
constexpr size_t kSmall = size_t(1) << 20;    // larger blocks use separate segments
constexpr size_t kSegment = size_t(2) << 20;  // segment sizes are multiples of this

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

struct Block {
  std::byte* data = nullptr;
  size_t size = 0;
  int64_t pool = 0;
  cudaStream_t stream = nullptr;
  bool small = false, free = false;
  bool is_workspace = false;                   // allocated by a kernel for its own use
  Block *before = nullptr, *behind = nullptr;  // neighbours in the segment
};

struct BySize {
  bool operator()(const Block* a, const Block* b) const {
    if (a->pool != b->pool) return a->pool < b->pool;
    if (a->stream != b->stream) return std::less<>()(a->stream, b->stream);
    return a->size != b->size ? a->size < b->size : std::less<>()(a->data, b->data);
  }
};
using FreeBlocks = std::set<Block*, BySize>;

thread_local int64_t current_pool = 0;  // the pool from which this thread allocates

/// Allows calls that cannot be recorded, while this thread records a graph.
class RelaxedRecording {
 public:
  RelaxedRecording() { exchange(); }
  ~RelaxedRecording() { exchange(); }
  RelaxedRecording(const RelaxedRecording&) = delete;
  RelaxedRecording& operator=(const RelaxedRecording&) = delete;

 private:
  void exchange() {
    if (is_recording_graph()) cudaThreadExchangeStreamCaptureMode(&mode_);  // errors are ignored
  }
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// The memory of one device.
class Memory {
 public:
  void* allocate(size_t bytes, tapegrad::Device device) {
    const cudaStream_t stream = stream_of(device);
    const MutexLock lock(mutex_);
    if (bytes > size_t(1) << 62) out_of_memory(bytes, device);
    Block* block = is_direct() ? take_segment(std::max<size_t>(bytes, 1), stream, false, device)
                               : take(round_up(std::max<size_t>(bytes, 1), kRound), stream, device);
    block->free = false;
    block->is_workspace = is_in_kernel();
    taken_[block->data] = block;
    stats_.in_use += int64_t(block->size);
    stats_.peak = std::max(stats_.peak, stats_.in_use);
    ++stats_.allocations;
    return block->data;
  }

  void deallocate(void* data) {
    const MutexLock lock(mutex_);
    const auto found = taken_.find(data);
    Block* block = found->second;
    taken_.erase(found);
    stats_.in_use -= int64_t(block->size);
    if (is_direct()) {
      cudaStreamSynchronize(block->stream);  // errors are ignored: nothing can be done here
      cudaFree(block->data);                 // errors are ignored
      delete block;
      return;
    }
    stats_.cached += int64_t(block->size);
    block = join(block);
    block->free = true;
    free_of(*block).insert(block);
  }

  Home home_of(void* data) const {
    const MutexLock lock(mutex_);
    const auto found = taken_.find(data);
    return found != taken_.end() ? Home{found->second->pool, found->second->stream} : Home{-1};
  }

  /// Moves all blocks of a pool to pool 0 and to the stream. The pool must be unused.
  void release_pool(int64_t pool, cudaStream_t stream) {
    const MutexLock lock(mutex_);
    for (auto& [data, block] : taken_)
      if (block->pool == pool) block->pool = 0, block->stream = stream;
    for (FreeBlocks* blocks : {&small_, &large_})
      for (auto i = blocks->begin(); i != blocks->end();) {
        Block* block = *i;
        if (block->pool != pool) {
          ++i;
          continue;
        }
        i = blocks->erase(i);
        block->pool = 0;
        block->stream = stream;
        blocks->insert(block);  // inserted before i, because pools are in order
      }
  }

  MemoryStats stats() const {
    const MutexLock lock(mutex_);
    return stats_;
  }
  std::vector<PoolStats> pools() const {
    const MutexLock lock(mutex_);
    return count_pools();
  }
  std::string summary() const {
    const MutexLock lock(mutex_);
    return describe();
  }
  void reset_peak() {
    const MutexLock lock(mutex_);
    stats_.peak = stats_.in_use;
  }
  void set_limit(int64_t bytes) {
    const MutexLock lock(mutex_);
    stats_.limit = bytes;
  }
  void empty_cache(tapegrad::Device device) {
    stream_of(device);
    const MutexLock lock(mutex_);
    release_segments();
  }

 private:
  FreeBlocks& free_of(const Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return block.small ? small_ : large_;
  }

  /// Takes the smallest free block that is large enough and cuts it to size.
  Block* take(size_t size, cudaStream_t stream, tapegrad::Device device)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const bool small = size <= kSmall;
    FreeBlocks& blocks = small ? small_ : large_;
    Block wanted;
    wanted.size = size;
    wanted.pool = current_pool;
    wanted.stream = stream;
    const auto found = blocks.lower_bound(&wanted);
    Block* block;
    if (found != blocks.end() && (*found)->pool == wanted.pool && (*found)->stream == stream) {
      block = *found;
      blocks.erase(found);
      stats_.cached -= int64_t(block->size);
    } else {
      block = take_segment(round_up(size, kSegment), stream, small, device);
    }
    if (block->size - size >= (small ? kRound : kSmall)) cut(block, size);
    return block;
  }

  void cut(Block* block, size_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    auto* rest = new Block(*block);
    rest->data += size;
    rest->size -= size;
    rest->before = block;
    rest->free = true;
    if (rest->behind != nullptr) rest->behind->before = rest;
    block->behind = rest;
    block->size = size;
    stats_.cached += int64_t(rest->size);
    free_of(*rest).insert(rest);
  }

  /// Extends `first` by the following block.
  static void unite(Block* first, Block* second) {
    first->size += second->size;
    first->behind = second->behind;
    if (second->behind != nullptr) second->behind->before = first;
    delete second;
  }

  /// Merges the block with its free neighbours.
  Block* join(Block* block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (Block* behind = block->behind; behind != nullptr && behind->free) {
      free_of(*behind).erase(behind);
      unite(block, behind);
    }
    if (Block* before = block->before; before != nullptr && before->free) {
      free_of(*before).erase(before);
      unite(before, block);
      return before;
    }
    return block;
  }

  Block* take_segment(size_t size, cudaStream_t stream, bool small, tapegrad::Device device)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    void* data = fits(size) ? system_allocate(size) : nullptr;
    if (data == nullptr) {
      stop_recording("memory ran out");
      release_segments();
      data = fits(size) ? system_allocate(size) : nullptr;
    }
    if (data == nullptr) out_of_memory(size, device);
    ++stats_.system_allocations;
    auto* block = new Block;
    block->data = static_cast<std::byte*>(data);
    block->size = size;
    block->pool = current_pool;
    block->stream = stream;
    block->small = small;
    return block;
  }

  /// Returns null if the device has no more memory.
  static void* system_allocate(size_t size) {
    void* data = nullptr;
    cudaError_t status;
    {
      const RelaxedRecording relaxed;
      status = cudaMalloc(&data, size);
    }
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    check(status, "cudaMalloc");
    return data;
  }

  bool fits(size_t size) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stats_.limit < 0 || stats_.in_use + stats_.cached + int64_t(size) <= stats_.limit;
  }

  /// Returns segments that are entirely free to the device.
  void release_segments() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    TG_CUDA(cudaDeviceSynchronize());
    for (FreeBlocks* blocks : {&small_, &large_})
      for (auto i = blocks->begin(); i != blocks->end();) {
        Block* block = *i;
        if (block->before != nullptr || block->behind != nullptr) {
          ++i;
          continue;
        }
        i = blocks->erase(i);
        stats_.cached -= int64_t(block->size);
        TG_CUDA(cudaFree(block->data));
        delete block;
      }
  }

  [[noreturn]] void out_of_memory(size_t bytes, tapegrad::Device device) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    fail<OutOfMemory>(current_op(), ": ", device, " is out of memory: ", bytes, " bytes wanted\n",
                      describe());
  }

  template <typename Visit>
  void for_each_block(const Visit& visit) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    for (const auto& [data, block] : taken_) visit(*block);
    for (const FreeBlocks* blocks : {&small_, &large_})
      for (const Block* block : *blocks) visit(*block);
  }

  std::vector<PoolStats> count_pools() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::map<int64_t, PoolStats> pools;
    for_each_block([&](const Block& block) {
      PoolStats& pool = pools[block.pool];
      pool.pool = block.pool;
      (block.free ? pool.cached : pool.in_use) += int64_t(block.size);
      pool.segments += block.before == nullptr;
    });
    std::vector<PoolStats> list;
    for (const auto& [number, pool] : pools) list.push_back(pool);
    return list;
  }

  /// Returns a description of the use of memory. The device must be current for this thread.
  std::string describe() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    int64_t tensors = 0, workspaces = 0, graphs = 0, pools = 0, largest = 0;
    for_each_block([&](const Block& block) {
      if (block.free)
        largest = std::max(largest, int64_t(block.size));
      else
        (block.pool != 0      ? graphs
         : block.is_workspace ? workspaces
                              : tensors) += int64_t(block.size);
    });
    for (const PoolStats& pool : count_pools()) pools += pool.pool != 0;
    size_t left = 0, total = 0;
    cudaMemGetInfo(&left, &total);  // errors are ignored
    const int64_t others = int64_t(total) - int64_t(left) - stats_.in_use - stats_.cached;
    return absl::StrFormat(
        "  tensors              %d\n"
        "  kernels' workspaces  %d\n"
        "  recorded steps       %d (pools: %d)\n"
        "  freed, kept          %d (the largest piece: %d)\n"
        "  other programs, CUDA %d\n"
        "  left on the device   %d of %d\n"
        "  peak %d, limit %s",
        tensors, workspaces, graphs, pools, stats_.cached, largest, std::max<int64_t>(others, 0),
        left, total, stats_.peak, stats_.limit < 0 ? "none" : std::to_string(stats_.limit));
  }

  mutable Mutex mutex_;
  FreeBlocks small_ ABSL_GUARDED_BY(mutex_), large_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<void*, Block*> taken_ ABSL_GUARDED_BY(mutex_);
  MemoryStats stats_ ABSL_GUARDED_BY(mutex_);
};

class DeviceAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes, tapegrad::Device device) override {
    stream_of(device);  // throws DeviceError for an invalid index
    return memory_[device.index].allocate(bytes, device);
  }
  void deallocate(void* block, size_t, tapegrad::Device device) noexcept override {
    memory_[device.index].deallocate(block);
  }
  MemoryStats stats(tapegrad::Device device) const override {
    return memory_[device.index].stats();
  }
  void reset_peak(tapegrad::Device device) override { memory_[device.index].reset_peak(); }
  void set_limit(int64_t bytes, tapegrad::Device device) override {
    memory_[device.index].set_limit(bytes);
  }
  void empty_cache(tapegrad::Device device) override {
    stop_recording("the cache is given back");
    memory_[device.index].empty_cache(device);
    empty_pinned(device);
  }
  Memory& of(tapegrad::Device device) { return memory_[device.index]; }

 private:
  Memory memory_[kMaxDevices];
};

DeviceAllocator& instance() {
  static auto& allocator = *new DeviceAllocator;  // never destroyed, because tensors may outlive it
  return allocator;
}

}  // namespace

bool is_direct() {
  static const bool direct = [] {
    const char* text = std::getenv("TAPEGRAD_CUDA_ALLOCATOR");
    return text != nullptr && std::string_view(text) == "direct";
  }();
  return direct;
}

Allocator* allocator() { return devices().count == 0 ? nullptr : &instance(); }

int64_t pool_in_use() { return current_pool; }
int64_t use_pool(int64_t pool) { return std::exchange(current_pool, pool); }
Home home_of(const TensorStorage& x) {
  const auto packed = x.packed();
  return instance().of(x.device()).home_of(packed ? packed->buffer->data() : x.data());
}
bool is_from_pool(int64_t pool, const Tensor& x) { return home_of(x.storage()).pool == pool; }
void release_pool(int64_t pool, tapegrad::Device device, cudaStream_t stream) {
  instance().of(device).release_pool(pool, stream);
}

}  // namespace backends::cuda

namespace cuda {

using namespace backends::cuda;

std::vector<PoolStats> pool_stats(Device device) {
  require_cuda(device, "cuda::pool_stats");
  return instance().of(device).pools();
}
std::string memory_summary(Device device) {
  require_cuda(device, "cuda::memory_summary");
  return instance().of(device).summary();
}
MemoryStats pinned_memory_stats() {
  stop_recording("it asks which copies are done");
  return pinned_stats();
}

}  // namespace cuda
}  // namespace tapegrad
