// NcclLink: moves bytes between the GPUs of the ranks by NCCL, which is opened at run time. The
// engine of the processes (MPI) introduces the ranks to each other. Tested with a stand-in; has not
// run on a GPU.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "core/cuda.h"
#include "dist/internal/engine.h"

namespace tapegrad::dist {

/// The functions of NCCL that are used. Their interface has not changed since version 2.7. A result
/// of 0 is success; 1 is the dtype of bytes.
struct NcclApi {
  struct Id {
    char bytes[128];
  };
  using Comm = struct NcclComm*;
  using Stream = void*;  // a cudaStream_t

  int (*ncclGetUniqueId)(Id*);
  int (*ncclCommInitRank)(Comm*, int ranks, Id, int rank);
  int (*ncclCommDestroy)(Comm);
  int (*ncclCommAbort)(Comm);
  int (*ncclCommGetAsyncError)(Comm, int*);
  const char* (*ncclGetErrorString)(int);
  int (*ncclGroupStart)();
  int (*ncclGroupEnd)();
  int (*ncclSend)(const void*, size_t count, int dtype, int peer, Comm, Stream);
  int (*ncclRecv)(void*, size_t count, int dtype, int peer, Comm, Stream);
  int (*ncclAllGather)(const void*, void*, size_t count, int dtype, Comm, Stream);
  int (*ncclBroadcast)(const void*, void*, size_t count, int dtype, int root, Comm, Stream);

  /// Loads TAPEGRAD_NCCL_LIBRARY or libnccl.so.2, once. If that fails, returns null and sets
  /// why_not.
  static const NcclApi* open(std::string& why_not);
};

/// Connection between the ranks' GPUs. All functions are called by the communication thread, on all
/// ranks.
class NcclLink {
 public:
  /// Returns null on all ranks if a rank has no NCCL, or if two ranks share a GPU, which NCCL does
  /// not support; tensors are then copied through the host. Throws Error if NCCL fails.
  static std::unique_ptr<NcclLink> make(Engine& engine, Device device, Waiting& waiting);
  ~NcclLink();
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  int ranks() const { return ranks_; }
  int rank() const { return rank_; }
  /// Returns the stream in which the functions below enqueue their work.
  const cuda::Stream& stream() const { return stream_; }
  /// Equivalent to the functions of Engine, for device memory.
  void all_to_all(const void* in, void* out, size_t bytes);
  void all_gather(const void* in, void* out, size_t bytes);
  void broadcast(void* data, size_t bytes, int root);
  /// Waits for the work of the stream. If the wait ends with an error, ends the communicator.
  void finish(Waiting& waiting);

 private:
  NcclLink(const NcclApi& api, Engine& engine, Device device);
  void check(int result) const;

  const NcclApi& api_;
  const int ranks_, rank_;
  const cuda::Stream stream_;
  NcclApi::Comm comm_ = nullptr;
};

}  // namespace tapegrad::dist
