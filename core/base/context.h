// Context: per-thread state that ops read on their hot path. Context is one object of trivial type
// at a fixed offset from the thread pointer, so that a read is cheap. Each field belongs to one
// part of core, which changes the field only through Set; Set restores the previous value.
#pragma once

#include <string>
#include <utility>

#include "core/base/where.h"

namespace tapegrad {

class CallRecorder;
class DrawObserver;
class TapeNode;
class ResultObserver;
class SavedStore;
class StepObserver;

namespace detail {

class AutocastScope;
struct RunningModel;

/// Value of Context::anomaly if Context::result_observer receives results. The observer reads no
/// operands, so ops may overwrite them.
inline constexpr unsigned char kObserve = 4;

struct Context {
  bool is_recording = true;                   // ops put a node on the tape (core/tape/recording.h)
  bool is_inference = false;                  // new storages do not count in-place writes
  bool is_recomputing = false;                // a checkpoint runs its function again
  bool is_observed = false;                   // `profile` or `recorder` is set
  bool is_inferring = false;                  // modules compute sizes and do not train
  bool is_making_constant = false;            // the function passed to step_constant() runs
  unsigned char anomaly = 0;                  // what AnomalyMode looks for, or kObserve; 0: nothing
  const TapeNode* running = nullptr;          // the node whose rule runs, or a composed op's call
  const std::string* scope = nullptr;         // name of the running module, such as "Net.fc1"
  RunningModel* model = nullptr;              // the outermost module that runs (nn/module_call.h)
  const Where* module_line = nullptr;         // location of the call of the running module
  const Where* error_line = nullptr;          // location of an op that has no node yet
  AutocastScope* autocast = nullptr;          // null: operands are not cast
  SavedStore* saved_store = nullptr;          // null: nodes keep their saved tensors themselves
  void* profile = nullptr;                    // record of the active profiler
  DrawObserver* draw_observer = nullptr;      // observes or replaces draws of random numbers
  StepObserver* step_observer = nullptr;      // the captured step that is being recorded
  CallRecorder* recorder = nullptr;           // receives kernel calls instead of the kernels
  ResultObserver* result_observer = nullptr;  // receives results while `anomaly` is kObserve
};

[[gnu::tls_model("initial-exec")]] extern constinit thread_local Context context;

template <auto kField>
class Set;

/// Sets a field of this thread's context for the lifetime of the object.
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
