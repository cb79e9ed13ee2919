// Device memory in host memory: every buffer is filled with NaN bytes and followed by a guard page;
// its padding is checked when it is freed; host code that touches it faults (COH_PROTECT).
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <map>

#include "state.h"

namespace coh {
namespace {

constexpr std::size_t kPage = 4096, kAlignment = 256;

struct Allocation {
  std::size_t size;
  char* map;
  std::size_t map_size;
  int device;
};
std::map<char*, Allocation> allocations;
std::map<char*, std::size_t> pinned;
std::size_t used[16];
int open_depth = 0;

bool protects() {
  static const bool on = std::getenv("COH_PROTECT") != nullptr;
  return on;
}
void set_access(bool open) {
  if (!protects()) return;
  for (auto& [p, a] : allocations)
    mprotect(a.map, a.map_size - kPage, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

std::size_t memory_of_device() {
  static const std::size_t bytes = [] {
    const char* text = std::getenv("COH_MEMORY");
    return text ? std::size_t(std::atoll(text)) : std::size_t(8) << 30;
  }();
  return bytes;
}

std::size_t padded(std::size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

cudaError_t allocate(void** p, std::size_t size) {
  const int device = current_device();
  if (used[device] + size > memory_of_device()) return cudaErrorMemoryAllocation;
  const std::size_t body = padded(size), map = (body + kPage - 1) / kPage * kPage + kPage;
  char* m = static_cast<char*>(mmap(nullptr, map, PROT_READ | PROT_WRITE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (m == MAP_FAILED) return cudaErrorMemoryAllocation;
  mprotect(m + map - kPage, kPage, PROT_NONE);
  char* q = m + map - kPage - body;  // ends at the guard page
  poison(q, body);
  allocations[q] = {size, m, map, device};
  used[device] += size;
  if (protects() && open_depth == 0) mprotect(m, map, PROT_NONE);
  *p = q;
  return cudaSuccess;
}

cudaError_t release(void* p) {
  const auto it = allocations.find(static_cast<char*>(p));
  if (it == allocations.end()) return cudaErrorInvalidValue;
  const Allocation a = it->second;
  mprotect(a.map, a.map_size - kPage, PROT_READ);
  for (std::size_t i = a.size; i < padded(a.size); ++i)
    if (static_cast<unsigned char*>(p)[i] != 0xFF) fail("a write past the end of a device buffer");
  munmap(a.map, a.map_size);
  used[a.device] -= a.size;
  allocations.erase(it);
  return cudaSuccess;
}

}  // namespace

Access::Access() {
  device_lock.lock();
  if (open_depth++ == 0) set_access(true);
}
Access::~Access() {
  if (--open_depth == 0) set_access(false);
  device_lock.unlock();
}

int device_of(const void* p) {
  const std::lock_guard lock(device_lock);
  auto it = allocations.upper_bound(static_cast<char*>(const_cast<void*>(p)));
  if (it == allocations.begin()) return -1;
  --it;  // a pointer one past the end belongs to this buffer
  return p <= it->first + it->second.size ? it->second.device : -1;
}

std::span<const char> buffer_of(const void* p) {
  const std::lock_guard lock(device_lock);
  auto it = allocations.upper_bound(static_cast<char*>(const_cast<void*>(p)));
  if (it == allocations.begin()) return {};
  --it;
  return p < it->first + it->second.size ? std::span<const char>(it->first, it->second.size)
                                         : std::span<const char>();
}

bool is_pinned(const void* p) {
  const std::lock_guard lock(device_lock);
  auto it = pinned.upper_bound(static_cast<char*>(const_cast<void*>(p)));
  return it != pinned.begin() && p < (--it)->first + it->second;
}

void check_argument(const void* bytes, std::size_t size, const char* what) {
  for (std::size_t i = 0; i + 8 <= size; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, static_cast<const char*>(bytes) + i, 8);
    if (word < (1ull << 32) || word >= (1ull << 47)) continue;
    void* p = reinterpret_cast<void*>(word);
    const int device = device_of(p);
    if (device == current_device() || is_pinned(p)) continue;
    unsigned char resident;
    if (device < 0 && mincore(reinterpret_cast<void*>(word & ~(kPage - 1)), 1, &resident) != 0)
      continue;  // a number, not an address
    if (device >= 0)
      std::fprintf(stderr, "cuda_on_host: %s holds an address of device %d, the current is %d\n",
                   what, device, current_device());
    else
      std::fprintf(stderr, "cuda_on_host: %s holds a host address %p\n", what, p);
    std::abort();
  }
}

}  // namespace coh

// ---- the runtime API
using namespace coh;

extern "C" {

cudaError_t cudaMalloc(void** p, std::size_t size) {
  const std::lock_guard lock(device_lock);
  if (breaks_capture()) return remember(cudaErrorStreamCaptureUnsupported);
  return remember(allocate(p, size));
}
cudaError_t cudaFree(void* p) {
  if (p == nullptr) return cudaSuccess;
  const std::lock_guard lock(device_lock);
  if (breaks_capture()) return remember(cudaErrorStreamCaptureUnsupported);
  drain_all();
  return remember(release(p));
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(device_lock);
  *total = memory_of_device();
  *free = *total - used[current_device()];
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** p, std::size_t size, unsigned) {
  const std::lock_guard lock(device_lock);
  if (breaks_capture()) return remember(cudaErrorStreamCaptureUnsupported);
  *p = std::malloc(size ? size : 1);
  pinned[static_cast<char*>(*p)] = size;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* p) {
  const std::lock_guard lock(device_lock);
  drain_all();
  if (pinned.erase(static_cast<char*>(p)) == 0) return remember(cudaErrorInvalidValue);
  std::free(p);
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* p) {
  *attributes = {};
  attributes->device = device_of(p);
  attributes->type = attributes->device >= 0 ? cudaMemoryTypeDevice
                     : is_pinned(p)          ? cudaMemoryTypeHost
                                             : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t n, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const bool to_device = device_of(to) >= 0, from_device = device_of(from) >= 0;
  if (n > 0 && ((kind == cudaMemcpyHostToDevice && (!to_device || from_device)) ||
                (kind == cudaMemcpyDeviceToHost && (to_device || !from_device)) ||
                (kind == cudaMemcpyDeviceToDevice && (!to_device || !from_device))))
    return remember(cudaErrorInvalidValue);
  if (observer != nullptr) observer->on_copy(n);
  if (kind == cudaMemcpyHostToDevice && !is_pinned(from) && !to_stream(stream).capture) {
    // Pageable memory is read before the call returns.
    const auto* bytes = static_cast<const char*>(from);
    return submit(stream, [to, n, staged = std::vector<char>(bytes, bytes + n)] {
      std::memcpy(to, staged.data(), n);
    });
  }
  const cudaError_t result = submit(stream, [=] { std::memcpy(to, from, n); });
  // Pageable memory is written before the call returns.
  if (kind == cudaMemcpyDeviceToHost && !is_pinned(to) && !to_stream(stream).capture)
    return cudaStreamSynchronize(stream);
  return result;
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                std::size_t n, cudaStream_t stream) {
  if (n > 0 && (device_of(to) != to_device || device_of(from) != from_device))
    return remember(cudaErrorInvalidValue);
  if (observer != nullptr) observer->on_copy(n);
  return submit(stream, [=] { std::memcpy(to, from, n); });
}
cudaError_t cudaMemsetAsync(void* p, int value, std::size_t n, cudaStream_t stream) {
  if (n > 0 && device_of(p) < 0) return remember(cudaErrorInvalidValue);
  if (observer != nullptr) observer->on_copy(n);
  return submit(stream, [=] { std::memset(p, value, n); });
}

}  // extern "C"
