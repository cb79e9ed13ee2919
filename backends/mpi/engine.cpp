// The engine of MPI, a module that dist/init.cpp opens. All calls are made by one thread, which is
// MPI's main thread.
#include <mpi.h>

#include <vector>

#include "dist/internal/engine.h"

namespace tapegrad::dist {
namespace {

constexpr int kHeaderTag = 1;

class MpiEngine final : public Engine {
 public:
  explicit MpiEngine(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  void exchange(const Header& own, std::span<Header> all, std::span<char> arrived,
                Waiting& waiting) override {
    constexpr int kBytes = int(sizeof(Header));
    std::vector<MPI_Request> sends(size_t(size_), MPI_REQUEST_NULL);
    std::vector<MPI_Request> receives(size_t(size_), MPI_REQUEST_NULL);
    outgoing_ = own;
    for (int step = 1; step < size_; ++step) {  // not all to rank 0 first
      const int to = (rank_ + step) % size_, from = (rank_ - step + size_) % size_;
      MPI_Irecv(&all[size_t(from)], kBytes, MPI_BYTE, from, kHeaderTag, comm_,
                &receives[size_t(from)]);
      MPI_Isend(&outgoing_, kBytes, MPI_BYTE, to, kHeaderTag, comm_, &sends[size_t(to)]);
    }
    all[size_t(rank_)] = own;
    arrived[size_t(rank_)] = 1;
    std::vector<int> done(static_cast<size_t>(size_));
    for (int left = size_ - 1; left > 0;) {
      int count = 0;
      MPI_Testsome(size_, receives.data(), &count, done.data(), MPI_STATUSES_IGNORE);
      if (count <= 0) {
        waiting.pause();
        continue;
      }
      for (int i = 0; i < count; ++i) arrived[size_t(done[size_t(i)])] = 1;
      left -= count;
    }
    for (int is_sent = 0;;) {
      MPI_Testall(size_, sends.data(), &is_sent, MPI_STATUSES_IGNORE);
      if (is_sent) return;
      waiting.pause();
    }
  }

  void all_to_all(const std::byte* in, std::byte* out, size_t bytes, Waiting& waiting) override {
    MPI_Request request;
    MPI_Ialltoall(in, int(bytes), MPI_BYTE, out, int(bytes), MPI_BYTE, comm_, &request);
    finish(request, waiting);
  }
  void all_gather(const std::byte* in, std::byte* out, size_t bytes, Waiting& waiting) override {
    MPI_Request request;
    MPI_Iallgather(in, int(bytes), MPI_BYTE, out, int(bytes), MPI_BYTE, comm_, &request);
    finish(request, waiting);
  }
  void broadcast(std::byte* data, size_t bytes, int root, Waiting& waiting) override {
    MPI_Request request;
    MPI_Ibcast(data, int(bytes), MPI_BYTE, root, comm_, &request);
    finish(request, waiting);
  }

  std::unique_ptr<Engine> split(std::span<const int> members, Waiting&) override {
    MPI_Comm made = MPI_COMM_NULL;
    MPI_Comm_split(comm_, members[0], rank_, &made);
    return std::make_unique<MpiEngine>(made);
  }

  bool ends_processes() const override { return true; }
  void abort(int status) override { MPI_Abort(MPI_COMM_WORLD, status); }
  void finalize() override {
    MPI_Comm_free(&comm_);
    MPI_Finalize();
  }

 private:
  static void finish(MPI_Request& request, Waiting& waiting) {
    for (int is_done = 0;;) {
      MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
      if (is_done) return;
      waiting.pause();
    }
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  Header outgoing_;
};

}  // namespace
}  // namespace tapegrad::dist

extern "C" tapegrad::dist::Engine* tapegrad_make_engine(int version, const char** error) {
  if (version != tapegrad::dist::kEngineVersion) {
    *error = "the module belongs to another version of tapegrad";
    return nullptr;
  }
  int is_started = 0, provided = 0;
  MPI_Initialized(&is_started);
  if (is_started) {
    *error = "the program has started MPI itself; call dist::init() instead of MPI_Init()";
    return nullptr;
  }
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS ||
      provided < MPI_THREAD_FUNNELED) {
    *error = "MPI does not allow programs with threads";
    return nullptr;
  }
  MPI_Comm comm = MPI_COMM_NULL;  // of our own: a program may use MPI, too
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  return new tapegrad::dist::MpiEngine(comm);
}
