#include "dist/internal/nccl.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tapegrad::dist {
namespace {

constexpr int kBytes = 1;  // ncclUint8

/// Data that the ranks exchange before NCCL starts.
struct NcclGreeting {
  char gpu[248] = {};  // host and number of the GPU on this host
  int64_t has_nccl = 0;
};

/// CUDA_VISIBLE_DEVICES may give each rank a GPU of its own as device 0.
std::string gpu_name(Device device) {
  char host[200] = {};
  gethostname(host, sizeof host - 1);
  std::string number = std::to_string(int(device.index));
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) {
    const std::vector<std::string> numbers = absl::StrSplit(visible, ',');
    if (size_t(device.index) < numbers.size()) number = numbers[size_t(device.index)];
  }
  return absl::StrCat(number, " of ", host);
}

/// Returns whether NCCL can connect the ranks. All ranks get one answer.
bool can_connect(Engine& engine, bool has_nccl, Device device, Waiting& waiting) {
  NcclGreeting own;
  own.has_nccl = has_nccl;
  gpu_name(device).copy(own.gpu, sizeof own.gpu - 1);
  std::vector<NcclGreeting> all(size_t(engine.size()));
  engine.all_gather(reinterpret_cast<const std::byte*>(&own),
                    reinterpret_cast<std::byte*>(all.data()), sizeof own, waiting);
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].has_nccl == 0) return false;
    for (size_t s = 0; s < r; ++s)
      if (std::strcmp(all[r].gpu, all[s].gpu) == 0) return false;
  }
  return true;
}

}  // namespace

const NcclApi* NcclApi::open(std::string& why_not) {
  struct Opened {
    NcclApi api{};
    std::string why_not;

    Opened() {
      const char* file = std::getenv("TAPEGRAD_NCCL_LIBRARY");
      void* library = dlopen(file != nullptr ? file : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) {
        why_not = dlerror();
        return;
      }
      const auto find = [&](auto& function, const char* name) {
        function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
        if (function == nullptr && why_not.empty()) why_not = absl::StrCat("NCCL has no ", name);
      };
      find(api.ncclGetUniqueId, "ncclGetUniqueId");
      find(api.ncclCommInitRank, "ncclCommInitRank");
      find(api.ncclCommDestroy, "ncclCommDestroy");
      find(api.ncclCommAbort, "ncclCommAbort");
      find(api.ncclCommGetAsyncError, "ncclCommGetAsyncError");
      find(api.ncclGetErrorString, "ncclGetErrorString");
      find(api.ncclGroupStart, "ncclGroupStart");
      find(api.ncclGroupEnd, "ncclGroupEnd");
      find(api.ncclSend, "ncclSend");
      find(api.ncclRecv, "ncclRecv");
      find(api.ncclAllGather, "ncclAllGather");
      find(api.ncclBroadcast, "ncclBroadcast");
    }
  };
  static const Opened* const opened = new Opened;
  why_not = opened->why_not;
  return why_not.empty() ? &opened->api : nullptr;
}

NcclLink::NcclLink(const NcclApi& api, Engine& engine, Device device)
    : api_(api),
      ranks_(engine.size()),
      rank_(engine.rank()),
      stream_(cuda::Stream::create(device)) {}

std::unique_ptr<NcclLink> NcclLink::make(Engine& engine, Device device, Waiting& waiting) {
  std::string why_not;
  const NcclApi* api = NcclApi::open(why_not);
  if (!can_connect(engine, api != nullptr, device, waiting)) return nullptr;
  std::unique_ptr<NcclLink> link(new NcclLink(*api, engine, device));
  NcclApi::Id id{};
  if (engine.rank() == 0) link->check(api->ncclGetUniqueId(&id));
  engine.broadcast(reinterpret_cast<std::byte*>(&id), sizeof id, 0, waiting);
  // ncclCommInitRank() waits for the other ranks without a deadline, so another thread calls it.
  struct Start {
    std::atomic<bool> is_done = false;
    int result = 0;
    NcclApi::Comm comm = nullptr;
  };
  const auto start = std::make_shared<Start>();
  std::thread([start, api, id, device, ranks = engine.size(), rank = engine.rank()] {
    const cuda::StreamGuard selects_the_device(cuda::current_stream(device));
    start->result = api->ncclCommInitRank(&start->comm, ranks, id, rank);
    start->is_done = true;
  }).detach();
  while (!start->is_done) waiting.pause();
  link->check(start->result);
  link->comm_ = start->comm;
  return link;
}

NcclLink::~NcclLink() {
  if (comm_ != nullptr) api_.ncclCommDestroy(comm_);
}

void NcclLink::check(int result) const {
  if (result != 0) fail<Error>("NCCL: ", api_.ncclGetErrorString(result));
}

void NcclLink::all_to_all(const void* in, void* out, size_t bytes) {
  check(api_.ncclGroupStart());
  for (int r = 0; r < ranks_; ++r) {
    const size_t first = size_t(r) * bytes;
    check(api_.ncclSend(static_cast<const char*>(in) + first, bytes, kBytes, r, comm_,
                        stream_.native()));
    check(
        api_.ncclRecv(static_cast<char*>(out) + first, bytes, kBytes, r, comm_, stream_.native()));
  }
  check(api_.ncclGroupEnd());
}

void NcclLink::all_gather(const void* in, void* out, size_t bytes) {
  check(api_.ncclAllGather(in, out, bytes, kBytes, comm_, stream_.native()));
}

void NcclLink::broadcast(void* data, size_t bytes, int root) {
  check(api_.ncclBroadcast(data, data, bytes, kBytes, root, comm_, stream_.native()));
}

void NcclLink::finish(Waiting& waiting) {
  try {
    while (!stream_.is_idle()) {
      int error = 0;
      check(api_.ncclCommGetAsyncError(comm_, &error));
      check(error);
      waiting.pause();
    }
  } catch (...) {
    api_.ncclCommAbort(std::exchange(comm_, nullptr));
    throw;
  }
}

}  // namespace tapegrad::dist
