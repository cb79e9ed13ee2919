// Mutex and MutexLock. Clang checks their use with -Wthread-safety.
//
// The annotations are Abseil's; the mutex is std::mutex. Debian compiles absl::Mutex with deadlock
// detection and without ThreadSanitizer: see "Dependencies" in docs/architecture.md.
#pragma once

#include <mutex>

#include "absl/base/thread_annotations.h"

namespace tapegrad {

/// std::mutex with the annotation that ABSL_GUARDED_BY and related macros require.
class ABSL_LOCKABLE Mutex {
 public:
  void lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// Holds a mutex for a scope.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : lock_(mutex) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  const std::lock_guard<Mutex> lock_;
};

}  // namespace tapegrad
