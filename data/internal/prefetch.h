// Threads that read batches ahead. Not part of the public interface.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "core/base/internal/mutex.h"
#include "data/loader.h"

namespace tapegrad {

/// Workers claim the numbers first, first + 1, ... in order, and put batch `number` into slot
/// number % capacity. The consumer takes the slots in order. A worker waits before it claims a
/// number whose slot still belongs to an older batch. The oldest unread batch is therefore always
/// ready or being read, so a deadlock is impossible.
class Prefetch final : public BatchStream {
 public:
  Prefetch(std::function<Example(int64_t)> read, int64_t first, int64_t end, int workers,
           int prefetch_factor);
  ~Prefetch() override;  // waits for the reads in progress

  bool next(Example& batch) override;

 private:
  struct Slot {
    bool ready = false;
    Example batch;
    std::exception_ptr error;
  };

  void work();
  void stop();

  std::function<Example(int64_t)> read_;
  const int64_t end_;
  Mutex mutex_;
  std::condition_variable_any room_, ready_;
  std::vector<Slot> slots_ ABSL_GUARDED_BY(mutex_);
  int64_t claimed_ ABSL_GUARDED_BY(mutex_);    // next number that a worker claims
  int64_t delivered_ ABSL_GUARDED_BY(mutex_);  // next number that the consumer takes
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tapegrad
