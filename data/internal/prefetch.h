// Threads that read batches ahead. Not part of the public interface.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "core/base/internal/mutex.h"
#include "data/loader.h"

namespace tapegrad {

/// Workers claim the numbers first, first + 1, ... in order, and put batch `number` into slot
/// number % capacity. The consumer takes the slots in order. A worker waits before it claims a
/// number whose slot still belongs to an older batch. The oldest unread batch is therefore always
/// ready or being read, so a deadlock is impossible.
class Prefetch final {
 public:
  using Read = std::function<std::shared_ptr<void>(int64_t)>;
  Prefetch(Read read, int64_t first, int64_t end, int workers, int prefetch_factor);
  ~Prefetch();  // waits for the reads in progress

  /// Returns the next batch, or null at the end. Rethrows an error of read().
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

/// Throws ArgumentError for workers outside of [0, 1024], a prefetch_factor outside of [1, 65536],
/// and a shard whose rank is outside of [0, size).
void check_workers(const char* loader, const DataLoaderOptions& options);

}  // namespace tapegrad
