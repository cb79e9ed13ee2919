#include "backends/cuda/runtime/pinned.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <list>
#include <map>

#include "backends/cuda/runtime/api.h"
#include "backends/cuda/runtime/stream.h"
#include "core/base/internal/mutex.h"
#include "core/cuda.h"
#include "core/dispatch/kernels.h"
#include "core/tape/op.h"

namespace tapegrad {
namespace backends::cuda {
namespace {

constexpr size_t kSmallest = size_t(64) << 10;  // block sizes are powers of two times this
constexpr size_t kLargest = size_t(64) << 20;   // largest block; larger copies are left to CUDA
constexpr int64_t kMost = int64_t(256) << 20;   // per device; beyond it, copies wait for earlier
                                                // copies

size_t size_of_block(size_t bytes) {
  constexpr size_t kPage = size_t(2) << 20;
  return bytes <= kLargest ? std::bit_ceil(std::max(bytes, kSmallest))
                           : (bytes + kPage - 1) / kPage * kPage;
}

/// A buffer and the event of the last copy that reads it.
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

using Blocks = std::list<Block>;

/// Blocks of one device. Never destroyed: copies may be running when the program ends.
class Pool {
 public:
  /// If blocks have `most` bytes in total and none is free, a caller waits for an earlier copy.
  /// Each size may have at least one block.
  explicit Pool(int64_t most = kMost) : most_(most) {}

  /// Copies through a block.
  void copy(const void* from, void* to, size_t bytes, cudaStream_t stream) {
    const MutexLock lock(mutex_);
    Blocks one = take(size_of_block(bytes));
    std::memcpy(one.front().data, from, bytes);
    const cudaError_t status = read(one.front(), to, bytes, stream);
    put_back(one);
    check(status, "cudaMemcpyAsync");
  }

  /// Lends a block, which the borrower returns by release().
  std::byte* lend(size_t bytes) {
    const MutexLock lock(mutex_);
    Blocks one = take(size_of_block(bytes));
    std::byte* data = one.front().data;
    lent_[data].swap(one);
    return data;
  }
  void release(std::byte* data) {
    const MutexLock lock(mutex_);
    const auto it = lent_.find(data);
    put_back(it->second);
    lent_.erase(it);
  }
  bool has_lent(const std::byte* data) const {
    const MutexLock lock(mutex_);
    return lent_.contains(data);
  }
  /// Copies from a lent block, if `data` is one.
  bool copy_lent(const std::byte* data, const void* from, void* to, size_t bytes,
                 cudaStream_t stream) {
    const MutexLock lock(mutex_);
    const auto it = lent_.find(data);
    if (it == lent_.end()) return false;
    const Block& block = it->second.front();
    if (!block.is_read()) TG_CUDA(cudaStreamWaitEvent(stream, block.read, 0));
    check(read(block, to, bytes, stream, from), "cudaMemcpyAsync");
    return true;
  }

  MemoryStats stats() const {
    const MutexLock lock(mutex_);
    MemoryStats stats = stats_;
    for (const auto& [size, blocks] : blocks_)
      for (const Block& block : blocks)
        (block.is_read() ? stats.cached : stats.in_use) += int64_t(size);
    for (const auto& [data, one] : lent_) stats.in_use += int64_t(one.front().size);
    return stats;
  }

  void empty() {
    const MutexLock lock(mutex_);
    for (auto& [size, blocks] : blocks_)
      std::erase_if(blocks, [&](const Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return block.is_read() && give_back(block);
      });
  }

 private:
  /// Must not throw: the block has to return to its list.
  static cudaError_t read(const Block& block, void* to, size_t bytes, cudaStream_t stream,
                          const void* from = nullptr) {
    const cudaError_t status = cudaMemcpyAsync(to, from != nullptr ? from : block.data, bytes,
                                               cudaMemcpyHostToDevice, stream);
    return status == cudaSuccess ? cudaEventRecord(block.read, stream) : status;
  }

  /// Returns a block whose copy has finished. The least recently used block nearly always finishes
  /// first.
  Blocks take(size_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    ++stats_.allocations;
    Blocks& blocks = blocks_[size];
    if (blocks.empty() || !blocks.front().is_read()) {
      if (blocks.empty() || total_ + int64_t(size) <= most_) return create(size);
      TG_CUDA(cudaEventSynchronize(blocks.front().read));
    }
    Blocks one;
    one.splice(one.begin(), blocks, blocks.begin());
    return one;
  }
  void put_back(Blocks& one) noexcept ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Blocks& blocks = blocks_.find(one.front().size)->second;
    blocks.splice(blocks.end(), one);
  }

  Blocks create(size_t size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Blocks one{Block{.size = size}};
    Block& block = one.front();
    TG_CUDA(cudaEventCreateWithFlags(&block.read, cudaEventDisableTiming));
    void* data = nullptr;
    TG_CUDA(cudaHostAlloc(&data, size, cudaHostAllocDefault));
    block.data = static_cast<std::byte*>(data);
    ++stats_.system_allocations;
    total_ += int64_t(size);
    stats_.peak = std::max(stats_.peak, total_);
    return one;
  }

  bool give_back(const Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    total_ -= int64_t(block.size);
    TG_CUDA(cudaFreeHost(block.data));
    TG_CUDA(cudaEventDestroy(block.read));
    return true;
  }

  const int64_t most_;
  mutable Mutex mutex_;
  /// Free blocks by size; the block used last is the last.
  std::map<size_t, Blocks> blocks_ ABSL_GUARDED_BY(mutex_);
  /// Lists of one block each, so that returning a block allocates nothing.
  std::map<const std::byte*, Blocks> lent_ ABSL_GUARDED_BY(mutex_);
  int64_t total_ ABSL_GUARDED_BY(mutex_) = 0;
  MemoryStats stats_ ABSL_GUARDED_BY(mutex_);  // without in_use and cached
};

/// Staging blocks for copies, and the memory of pinned tensors.
struct Pools {
  Pool between;
  Pool tensors{std::numeric_limits<int64_t>::max()};
};
Pools& pools_of(int device) {
  static auto* pools = new Pools[kMaxDevices];
  return pools[device];
}

/// Returns whether memory is pinned: the device then reads it after the call has returned.
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
  if (bytes <= kLargest) return pools_of(device.index).between.copy(from, to, bytes, stream);
  TG_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
  // For other memory, CUDA has made a copy when the call returns.
  if (is_pinned(from)) TG_CUDA(cudaStreamSynchronize(stream));
}

void copy_to_device(const Tensor& from, void* to, size_t bytes, tapegrad::Device device) {
  const std::byte* block = from.storage().data();
  const std::byte* data = block + from.layout().offset * size_of(from.dtype());
  if (!from.storage().is_wrapped() ||
      !pools_of(device.index).tensors.copy_lent(block, data, to, bytes, stream_of(device)))
    copy_to_device(data, to, bytes, device);
}

MemoryStats pinned_stats() {
  MemoryStats sum;
  for (int i = 0; i < devices().count; ++i)
    for (const Pool* pool : {&pools_of(i).between, &pools_of(i).tensors}) {
      const MemoryStats stats = pool->stats();
      sum.in_use += stats.in_use;
      sum.peak += stats.peak;
      sum.cached += stats.cached;
      sum.allocations += stats.allocations;
      sum.system_allocations += stats.system_allocations;
    }
  return sum;
}

void empty_pinned(tapegrad::Device device) {
  pools_of(device.index).between.empty();
  pools_of(device.index).tensors.empty();
}

}  // namespace backends::cuda

namespace cuda {
namespace {

using namespace backends::cuda;

struct PinMemory {
  static constexpr std::string_view kName = "pin_memory";
  tapegrad::Device device;

  Tensor forward(const Tensor& x) const {
    Pool& pool = pools_of(device.index).tensors;
    std::byte* data = pool.lend(size_t(x.numel() * size_of(x.dtype())));
    const auto release = [&pool, data] { pool.release(data); };
    Tensor y;
    try {
      y = Tensor::wrap(data, x.shape(), x.dtype(), tapegrad::cpu, release);
    } catch (...) {
      release();
      throw;
    }
    kernels::copy(x, y);
    return y;
  }
  Variable backward(const Variable& dy) const { return dy; }
};

}  // namespace

bool is_pinned(const Variable& x, Device device) {
  const TensorStorage& storage = x.value().storage();
  return storage.is_wrapped() && storage.device() == tapegrad::cpu && is_available(device) &&
         pools_of(device.index).tensors.has_lent(storage.data());
}

Variable pin_memory(const Variable& x, Device device, Where where) {
  require_cuda(device, PinMemory::kName);
  if (x.device() != tapegrad::cpu)
    fail<DeviceError>("pin_memory: only values on the CPU can be pinned, these are on ",
                      x.device());
  if (is_pinned(x, device)) return x;
  stop_recording("values are copied from the CPU, as they are at that moment");
  return apply(PinMemory{device}, where, x);
}

}  // namespace cuda
}  // namespace tapegrad
