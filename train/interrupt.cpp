#include "train/interrupt.h"

#include <signal.h>

#include <atomic>
#include <iterator>

#include "core/base/internal/mutex.h"

namespace tapegrad {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};

constinit Mutex mutex;
constinit int living ABSL_GUARDED_BY(mutex) = 0;
constinit bool is_handled[2] ABSL_GUARDED_BY(mutex) = {};

constinit std::atomic<int> arrived = 0;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler writes it");

extern "C" void note_signal(int signal) { arrived = signal; }

}  // namespace

Interrupt::Interrupt() {
  const MutexLock lock(mutex);
  if (living++ > 0) return;
  arrived = 0;
  for (size_t i = 0; i < std::size(kSignals); ++i) {
    struct sigaction old {};
    is_handled[i] = sigaction(kSignals[i], nullptr, &old) == 0 && old.sa_handler == SIG_DFL;
    if (!is_handled[i]) continue;
    struct sigaction action {};
    action.sa_handler = note_signal;
    action.sa_flags = SA_RESTART | int(SA_RESETHAND);
    sigaction(kSignals[i], &action, nullptr);
  }
}

Interrupt::~Interrupt() {
  const MutexLock lock(mutex);
  if (--living > 0) return;
  for (size_t i = 0; i < std::size(kSignals); ++i)
    if (is_handled[i]) ::signal(kSignals[i], SIG_DFL);
}

int Interrupt::signal() const { return arrived.load(std::memory_order_relaxed); }

std::string signal_name(int signal) {
  if (signal == SIGINT) return "SIGINT";
  if (signal == SIGTERM) return "SIGTERM";
  return "signal " + std::to_string(signal);
}

}  // namespace tapegrad
