#include "backends/cuda/pinned.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>

#include "backends/cuda/api.h"
#include "backends/cuda/stream.h"

namespace tapegrad::backends::cuda {
namespace {

constexpr size_t kSmallest = size_t(64) << 10;  // what blocks are a power of two times
constexpr size_t kLargest = size_t(64) << 20;   // of a copy; larger ones go as CUDA likes
constexpr int64_t kMost = int64_t(256) << 20;   // of a device; then copies wait for earlier ones

/// A buffer, and the event of the copy that reads it.
struct Block {
  std::byte* data = nullptr;
  size_t size = 0;
  cudaEvent_t read = nullptr;

  bool is_read() const {
    const cudaError_t status = cudaEventQuery(read);
    if (status != cudaErrorNotReady) check(status, "cudaEventQuery");
    return status == cudaSuccess;
  }
};

/// Of one device. Never destroyed: copies may be under way when the program ends.
class Pool {
 public:
  void copy(const void* from, void* to, size_t bytes, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    Block block = take(std::bit_ceil(std::max(bytes, kSmallest)));
    std::memcpy(block.data, from, bytes);
    // Nothing that throws until the block is in its place again.
    cudaError_t status = cudaMemcpyAsync(to, block.data, bytes, cudaMemcpyHostToDevice, stream);
    if (status == cudaSuccess) status = cudaEventRecord(block.read, stream);
    blocks_[block.size].push_back(block);
    check(status, "cudaMemcpyAsync");
  }

  MemoryStats stats() const {
    const std::lock_guard lock(mutex_);
    MemoryStats stats = stats_;
    for (const auto& [size, blocks] : blocks_)
      for (const Block& block : blocks)
        (block.is_read() ? stats.cached : stats.in_use) += int64_t(size);
    return stats;
  }

  void empty() {
    const std::lock_guard lock(mutex_);
    for (auto& [size, blocks] : blocks_)
      std::erase_if(blocks,
                    [&](const Block& block) { return block.is_read() && give_back(block); });
  }

 private:
  /// A block whose copy is done. The one used longest ago is done first, nearly always.
  Block take(size_t size) {
    ++stats_.allocations;
    std::deque<Block>& blocks = blocks_[size];
    if (blocks.empty() || !blocks.front().is_read()) {
      if (blocks.empty() || total_ + int64_t(size) <= kMost) return create(size);
      TG_CUDA(cudaEventSynchronize(blocks.front().read));
    }
    const Block block = blocks.front();
    blocks.pop_front();
    return block;
  }

  Block create(size_t size) {
    Block block{.size = size};
    TG_CUDA(cudaEventCreateWithFlags(&block.read, cudaEventDisableTiming));
    void* data = nullptr;
    TG_CUDA(cudaHostAlloc(&data, size, cudaHostAllocDefault));
    block.data = static_cast<std::byte*>(data);
    ++stats_.system_allocations;
    total_ += int64_t(size);
    stats_.peak = std::max(stats_.peak, total_);
    return block;
  }

  bool give_back(const Block& block) {
    total_ -= int64_t(block.size);
    TG_CUDA(cudaFreeHost(block.data));
    TG_CUDA(cudaEventDestroy(block.read));
    return true;
  }

  mutable std::mutex mutex_;
  std::map<size_t, std::deque<Block>> blocks_;  // by size; the one used last is the last
  int64_t total_ = 0;
  MemoryStats stats_;  // without in_use and cached
};

Pool& pool_of(int device) {
  static auto* pools = new Pool[kMaxDevices];
  return pools[device];
}

/// Memory that the system may not move: the device reads it later than the call returns.
bool is_pinned(const void* data) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, data) != cudaSuccess) {
    cudaGetLastError();
    return false;
  }
  return attributes.type == cudaMemoryTypeHost;
}

}  // namespace

void copy_to_device(const void* from, void* to, size_t bytes, tapegrad::Device device) {
  const cudaStream_t stream = stream_of(device);
  if (bytes <= kLargest) return pool_of(device.index).copy(from, to, bytes, stream);
  TG_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
  // Of other memory CUDA has a copy when it returns.
  if (is_pinned(from)) TG_CUDA(cudaStreamSynchronize(stream));
}

MemoryStats pinned_stats() {
  MemoryStats sum;
  for (int i = 0; i < devices().count; ++i) {
    const MemoryStats stats = pool_of(i).stats();
    sum.in_use += stats.in_use;
    sum.peak += stats.peak;
    sum.cached += stats.cached;
    sum.allocations += stats.allocations;
    sum.system_allocations += stats.system_allocations;
  }
  return sum;
}

void empty_pinned(tapegrad::Device device) { pool_of(device.index).empty(); }

}  // namespace tapegrad::backends::cuda
