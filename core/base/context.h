// Context: the state of one thread that ops read on their way. It is one object of trivial type at
// a fixed offset from the thread pointer, because every op reads it. The parts of core that own a
// field change it through Set, which restores the previous value; nothing else writes to the
// context.
#pragma once

#include <source_location>
#include <string>
#include <utility>

namespace tapegrad {

class DrawObserver;
class Node;
class SavedStore;
class StepObserver;

namespace detail {

class AutocastScope;

struct Context {
  bool is_recording = true;            // ops put a node on the tape (core/tape/recording.h)
  bool is_inference = false;           // new storages do not count writes
  bool is_recomputing = false;         // a checkpoint runs its function again
  unsigned char anomaly = 0;           // what AnomalyMode looks for; 0: nothing
  const Node* running = nullptr;       // the node whose rule runs, or the call of a composed op
  const std::string* scope = nullptr;  // the part of the model, "Net.fc1"
  const std::source_location* error_line = nullptr;  // where an op was called that has no node yet
  AutocastScope* autocast = nullptr;                 // null: operands are not cast
  SavedStore* saved_store = nullptr;                 // null: nodes keep saved values themselves
  void* profile = nullptr;                           // the record of the profiler that watches
  DrawObserver* draw_observer = nullptr;  // sees draws of random numbers, or answers them
  StepObserver* step_observer = nullptr;  // the captured step that is being recorded
};

[[gnu::tls_model("initial-exec")]] extern constinit thread_local Context context;

template <auto kField>
class Set;

/// Sets a field of this thread's context for as long as the object lives.
template <typename T, T Context::*kField>
class [[nodiscard]] Set<kField> {
 public:
  explicit Set(T value) : before_(std::exchange(context.*kField, value)) {}
  ~Set() { context.*kField = before_; }
  Set(const Set&) = delete;
  Set& operator=(const Set&) = delete;

  T before() const { return before_; }

 private:
  T before_;
};

}  // namespace detail
}  // namespace tapegrad
