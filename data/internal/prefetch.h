// Threads that read batches ahead. Not part of the public interface.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "data/loader.h"

namespace tapegrad {

/// Workers take the numbers first, first + 1, ... in turn, and put what they read into slot
/// number % capacity; the consumer takes the slots in order. A worker waits before it takes a
/// number whose slot still holds, or waits for, an older batch: the oldest unread batch always has
/// a worker or is ready, so nothing can wait in a circle.
class Prefetch final : public BatchStream {
 public:
  Prefetch(std::function<Example(int64_t)> read, int64_t first, int64_t end, int workers,
           int prefetch_factor);
  ~Prefetch() override;  // waits for the reads under way

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
  std::mutex mutex_;
  std::condition_variable room_, ready_;
  std::vector<Slot> slots_;
  int64_t claimed_;    // the next number that a worker takes
  int64_t delivered_;  // the next number that the consumer takes
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tapegrad
