#include "backends/cuda/layout/unpack.h"

#include "backends/cuda/runtime/allocator.h"
#include "backends/cuda/runtime/api.h"
#include "backends/cuda/runtime/stream.h"
#include "core/base/allocator.h"
#include "core/cuda.h"

namespace tapegrad::backends::cuda {
namespace {

/// Makes this thread use the pool and stream of a block of memory, for the lifetime of the object.
class AtHome {
 public:
  AtHome(const Home& home, tapegrad::Device device)
      : device_(device), pool_(use_pool(home.pool)), stream_(set_stream(device, home.stream)) {}
  ~AtHome() {
    use_pool(pool_);
    set_stream(device_, stream_);
  }
  AtHome(const AtHome&) = delete;
  AtHome& operator=(const AtHome&) = delete;

 private:
  const tapegrad::Device device_;
  const int64_t pool_;
  const cudaStream_t stream_;
};

/// Allocates and writes in this thread's pool and stream.
std::byte* written(const TensorStorage& packed, const std::function<void(std::byte*)>& write) {
  Allocator& memory = tapegrad::allocator(DeviceType::kCuda);
  auto* plain = static_cast<std::byte*>(memory.allocate(packed.bytes(), packed.device()));
  try {
    write(plain);
  } catch (...) {
    memory.deallocate(plain, packed.bytes(), packed.device());
    throw;
  }
  return plain;
}

}  // namespace

std::byte* unpack_at_home(const TensorStorage& packed, std::string_view why,
                          const std::function<void(std::byte*)>& write) {
  const tapegrad::Device device = packed.device();
  const Home home = home_of(packed);
  // The memory belongs to a graph that this thread records, or that was given up and is ending.
  if (home.pool != 0) return written(packed, write);
  const bool others = has_side_streams(device);
  if (others) stop_recording(why);
  const cudaStream_t stream = stream_of(device);
  std::byte* plain;
  {
    const AtHome at_home(home, device);
    plain = written(packed, write);
  }
  if (!is_recording_graph()) order(home.stream, device, stream, device);  // a graph runs later
  if (others) tapegrad::cuda::synchronize(device);
  return plain;
}

}  // namespace tapegrad::backends::cuda
