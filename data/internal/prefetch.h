// Threads that read batches ahead. Not part of the public interface.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>

#include "data/loader.h"

namespace tapegrad {

/// Batches that threads read ahead, in order.
class Prefetch final {
 public:
  using Read = std::function<std::shared_ptr<void>(int64_t)>;
  Prefetch(Read read, int64_t first, int64_t end, int workers, int prefetch_factor);
  /// Waits for the reads in progress. In a forked process, which does not have the threads, leaks
  /// the memory that the threads share.
  ~Prefetch();

  /// Returns the next batch, or null at the end. Rethrows an error of read(). Throws ArgumentError
  /// in a process that was forked after the constructor.
  std::shared_ptr<void> next();

 private:
  class Workers;

  std::unique_ptr<Workers> workers_;
  const pid_t process_;
};

/// Throws ArgumentError for workers outside of [0, 1024], a prefetch_factor outside of [1, 65536],
/// and a shard whose rank is outside of [0, size).
void check_workers(const char* loader, const DataLoaderOptions& options);

}  // namespace tapegrad
