#include "data/internal/prefetch.h"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/internal/mutex.h"

namespace tapegrad {

void check_workers(const char* loader, const DataLoaderOptions& options) {
  if (options.num_workers < 0 || options.num_workers > 1024)
    fail<ArgumentError>(loader, ": num_workers is ", options.num_workers, ", not in [0, 1024]");
  if (options.prefetch_factor < 1 || options.prefetch_factor > 65536)
    fail<ArgumentError>(loader, ": prefetch_factor is ", options.prefetch_factor,
                        ", not in [1, 65536]");
  if (options.shuffle && options.sampler.get() != nullptr)
    fail<ArgumentError>(loader, ": shuffle beside a sampler, which has an order of its own");
  options.shard.check(loader);
}

/// Workers claim the numbers first, first + 1, ... in order, and put batch `number` into slot
/// number % capacity. The consumer takes the slots in order. A worker waits before it claims a
/// number whose slot still belongs to an older batch. The oldest unread batch is therefore always
/// available or being read, so a deadlock is impossible.
class Prefetch::Workers final {
 public:
  Workers(Read read, int64_t first, int64_t end, int workers, int prefetch_factor);
  ~Workers();
  std::shared_ptr<void> next();

 private:
  struct Slot {
    bool ready = false;
    std::shared_ptr<void> batch;
    std::exception_ptr error;
  };

  void work();
  void stop();

  Read read_;
  const int64_t end_;
  Mutex mutex_;
  std::condition_variable_any room_, ready_;
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);
  int64_t claimed_ ABSL_GUARDED_BY(mutex_);    // next number that a worker claims
  int64_t delivered_ ABSL_GUARDED_BY(mutex_);  // next number that the consumer takes
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

Prefetch::Prefetch(Read read, int64_t first, int64_t end, int workers, int prefetch_factor)
    : workers_(std::make_unique<Workers>(std::move(read), first, end, workers, prefetch_factor)),
      process_(getpid()) {}

Prefetch::~Prefetch() {
  if (getpid() != process_) (void)workers_.release();
}

std::shared_ptr<void> Prefetch::next() {
  if (getpid() != process_)
    fail<ArgumentError>(
        "DataLoader: a loop with workers that began before fork(); begin another in this process");
  return workers_->next();
}

Prefetch::Workers::Workers(Read read, int64_t first, int64_t end, int workers, int prefetch_factor)
    : read_(std::move(read)),
      end_(end),
      slots_(size_t(std::clamp<int64_t>(int64_t(workers) * prefetch_factor, 1,
                                        std::max<int64_t>(end - first, 1)))),
      claimed_(first),
      delivered_(first) {
  const int64_t useful = std::min<int64_t>(workers, end - first);
  try {
    for (int64_t i = 0; i < useful; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {  // no more threads are available
    const size_t started = threads_.size();
    stop();
    fail<OutOfMemory>("DataLoader: no thread for worker ", started, ": ", error.what());
  } catch (...) {
    stop();
    throw;
  }
}

Prefetch::Workers::~Workers() { stop(); }

void Prefetch::Workers::stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  room_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Prefetch::Workers::work() {
  for (;;) {
    int64_t number;
    {
      const MutexLock lock(mutex_);
      while (!stopping_ && claimed_ < end_ && claimed_ >= delivered_ + int64_t(slots_.size()))
        room_.wait(mutex_);
      if (stopping_ || claimed_ == end_) return;
      number = claimed_++;
      if (claimed_ == end_) room_.notify_all();  // wakes the other workers, which then end
    }
    Slot result;
    try {
      result.batch = read_(number);
    } catch (...) {
      result.error = std::current_exception();
    }
    result.ready = true;
    {
      const MutexLock lock(mutex_);
      slots_[size_t(number) % slots_.size()] = std::move(result);
    }
    ready_.notify_one();
  }
}

std::shared_ptr<void> Prefetch::Workers::next() {
  Slot taken;
  {
    const MutexLock lock(mutex_);
    if (delivered_ == end_) return nullptr;
    Slot& slot = slots_[size_t(delivered_) % slots_.size()];
    while (!slot.ready) ready_.wait(mutex_);
    taken = std::move(slot);
    slot = {};
    ++delivered_;
  }
  room_.notify_one();
  if (taken.error) std::rethrow_exception(taken.error);
  return std::move(taken.batch);
}

}  // namespace tapegrad
