// A stand-in for libnccl.so.2 whose ranks are threads of one process and whose GPUs are the memory
// of the host. Notes the calls of rank 0, which nccl_double_calls() returns and forgets.
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace {

struct Id {
  char bytes[128];
};
struct Comm {
  int ranks, rank;
};
struct Message {
  const Comm* comm;
  char* data;
  size_t count;
  int peer;
};

std::mutex mutex;
std::condition_variable changed;
std::map<std::pair<int, int>, std::deque<std::vector<char>>> boxes;  // from, to
std::string calls;
bool fails = false;
thread_local std::vector<Message> sends, receives;  // of the group

void note(const Comm* comm, const std::string& call) {
  const std::lock_guard lock(mutex);
  if (comm->rank == 0) calls += call + "\n";
}

void deliver() {
  std::unique_lock lock(mutex);
  for (const Message& each : sends)
    boxes[{each.comm->rank, each.peer}].emplace_back(each.data, each.data + each.count);
  changed.notify_all();
  for (const Message& each : receives) {
    auto& box = boxes[{each.peer, each.comm->rank}];
    changed.wait(lock, [&] { return !box.empty(); });
    std::memcpy(each.data, box.front().data(), each.count);
    box.pop_front();
  }
  sends.clear();
  receives.clear();
}

}  // namespace

extern "C" {
const char* nccl_double_calls() {
  static std::string last;
  const std::lock_guard lock(mutex);
  last = std::exchange(calls, {});
  return last.c_str();
}
/// Lets ncclAllGather() return an error.
void nccl_double_fail(int on) { fails = on != 0; }

int ncclGetUniqueId(Id* id) {
  std::memset(id->bytes, 7, sizeof id->bytes);
  return 0;
}
int ncclCommInitRank(Comm** comm, int ranks, Id id, int rank) {
  if (id.bytes[127] != 7) return 4;  // the id of rank 0 has not arrived
  *comm = new Comm{ranks, rank};
  note(*comm, "init " + std::to_string(ranks));
  return 0;
}
int ncclCommDestroy(Comm* comm) {
  note(comm, "destroy");
  delete comm;
  return 0;
}
int ncclCommAbort(Comm* comm) {
  note(comm, "abort");
  delete comm;
  return 0;
}
int ncclCommGetAsyncError(Comm*, int* error) {
  *error = 0;
  return 0;
}
const char* ncclGetErrorString(int) { return "an error of the stand-in"; }
int ncclGroupStart() { return 0; }
int ncclGroupEnd() {
  if (!sends.empty()) note(sends[0].comm, "group of " + std::to_string(sends.size()));
  deliver();
  return 0;
}
int ncclSend(const void* data, size_t count, int, int peer, Comm* comm, void*) {
  note(comm, "send " + std::to_string(count) + " to " + std::to_string(peer));
  sends.push_back({comm, const_cast<char*>(static_cast<const char*>(data)), count, peer});
  return 0;
}
int ncclRecv(void* data, size_t count, int, int peer, Comm* comm, void*) {
  receives.push_back({comm, static_cast<char*>(data), count, peer});
  return 0;
}
int ncclAllGather(const void* in, void* out, size_t count, int dtype, Comm* comm, void*) {
  if (fails || dtype != 1) return 3;
  note(comm, "all_gather " + std::to_string(count));
  for (int r = 0; r < comm->ranks; ++r) {
    sends.push_back({comm, const_cast<char*>(static_cast<const char*>(in)), count, r});
    receives.push_back({comm, static_cast<char*>(out) + size_t(r) * count, count, r});
  }
  deliver();
  return 0;
}
int ncclBroadcast(const void* in, void* out, size_t count, int, int root, Comm* comm, void*) {
  note(comm, "broadcast " + std::to_string(count) + " from " + std::to_string(root));
  if (comm->rank == root)
    for (int r = 0; r < comm->ranks; ++r)
      sends.push_back({comm, const_cast<char*>(static_cast<const char*>(in)), count, r});
  receives.push_back({comm, static_cast<char*>(out), count, root});
  deliver();
  return 0;
}
}
