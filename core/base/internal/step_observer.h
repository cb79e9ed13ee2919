// StepObserver: sees what a step does on the host that a recording of the step has to repeat. The
// only implementation is Capture (core/autograd/internal/capture.h); this interface lets random
// numbers and the tape report to it without knowing it.
#pragma once

#include <cstdint>

#include "core/base/context.h"
#include "core/base/generator.h"

namespace tapegrad {

class Leaf;
class Variable;

class StepObserver {
 public:
  /// A generator has handed out `counters` counters of its stream, which begin at `start`.
  virtual void on_draw(Generator& generator, RandomState start, uint64_t counters) = 0;
  /// Before something is added to the gradient of a leaf.
  virtual void before_gradient(const Leaf& leaf, const Variable& gradient) = 0;
  /// After something was added; had_one: the leaf had a gradient before.
  virtual void on_gradient(Leaf& leaf, bool had_one) = 0;
  /// The gradient of a leaf is cleared.
  virtual void on_clear(Leaf& leaf) = 0;
  /// Identifies the recording; positive.
  virtual int64_t number() const = 0;

  /// The observer of this thread; null outside of a captured step.
  static StepObserver* current() { return detail::context.step_observer; }
  /// Its number; 0 for none.
  static int64_t current_number() { return current() != nullptr ? current()->number() : 0; }

 protected:
  ~StepObserver() = default;
};

}  // namespace tapegrad
