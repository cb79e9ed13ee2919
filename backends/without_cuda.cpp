// Definitions of the CUDA backend's entry points for a build without CUDA.
#include "core/autograd/internal/capture.h"
#include "core/base/allocator.h"
#include "core/base/error.h"
#include "core/cuda.h"
#include "core/dispatch/internal/backends.h"
#include "core/tape/internal/call_line.h"

namespace tapegrad {
namespace {

constexpr const char* kReason = "this build of tapegrad has no CUDA backend";

[[noreturn]] void fail_without(const char* what) { fail<DeviceError>(what, ": ", kReason); }

}  // namespace

std::unique_ptr<Capture> Capture::create_on_gpu(Device) { fail_without("GraphedStep"); }

namespace backends::cuda {

void register_kernels() {}
std::string describe() { return std::string("cuda: not available (") + kReason + ")\n"; }
Allocator* allocator() { return nullptr; }
std::string why_unavailable(int) { return kReason; }

}  // namespace backends::cuda

namespace cuda {

bool is_available() { return false; }
std::string why_unavailable() { return kReason; }
int device_count() { return 0; }
std::vector<PoolStats> pool_stats(Device) { fail_without("cuda::pool_stats"); }
std::string memory_summary(Device) { fail_without("cuda::memory_summary"); }
MemoryStats pinned_memory_stats() { return {}; }
Variable pin_memory(const Variable&, Device, Where) { fail_without("pin_memory"); }
bool is_pinned(const Variable&, Device) { return false; }
void synchronize(Device, Where where) {
  const ErrorLine line(where);
  fail_without("cuda::synchronize");
}

Stream Stream::create(Device) { fail_without("cuda::Stream"); }
void Stream::synchronize() const { fail_without("cuda::Stream"); }
bool Stream::is_idle() const { fail_without("cuda::Stream"); }
void Stream::wait(const Event&) const { fail_without("cuda::Stream"); }
Stream current_stream(Device) { fail_without("cuda::current_stream"); }

StreamGuard::StreamGuard(Stream stream) : previous_(stream) { fail_without("cuda::StreamGuard"); }
StreamGuard::~StreamGuard() {}

Event::Event(Device device) : device_(device) { fail_without("cuda::Event"); }
void Event::record() { fail_without("cuda::Event"); }
void Event::record(const Stream&) { fail_without("cuda::Event"); }
bool Event::query() const { fail_without("cuda::Event"); }
void Event::synchronize() const { fail_without("cuda::Event"); }
float Event::elapsed_ms(const Event&) const { fail_without("cuda::Event"); }

}  // namespace cuda
}  // namespace tapegrad
