// StepObserver: observes the side effects of a step on the host, which a recording of the step has
// to repeat. Capture (core/autograd/internal/capture.h) is the only implementation. Random numbers
// and the tape report to this interface, so that they do not depend on Capture.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "core/base/context.h"
#include "core/base/generator.h"

namespace tapegrad {

class Leaf;
class Tensor;
class Variable;

class StepObserver {
 public:
  /// Called after a generator has handed out `counters` counters of its stream, which begin at
  /// `start`.
  virtual void on_draw(RandomGenerator& generator, RandomState start, uint64_t counters) = 0;
  /// Called when a generator is destroyed. Must not throw.
  virtual void on_end(const RandomGenerator& /*generator*/) {}
  /// Called before a gradient is accumulated into a leaf.
  virtual void before_gradient(const Leaf& leaf, const Variable& gradient) = 0;
  /// Called after a gradient was accumulated. `had_one` tells whether the leaf had a gradient
  /// before.
  virtual void on_gradient(Leaf& leaf, bool had_one) = 0;
  /// Called when the step reads the gradient of a leaf.
  virtual void on_gradient_read(const Leaf& /*leaf*/) {}
  /// Called when the gradient of a leaf is cleared.
  virtual void on_clear(Leaf& leaf) = 0;
  /// Called before the gradient of a leaf is set to zeros, if the leaf has one.
  virtual void on_set_to_zero(Leaf& /*leaf*/) {}
  /// Called before the host reads the values of a tensor. `function` is the name for an error
  /// message, such as "item()".
  virtual void on_read(const Tensor& /*x*/, const char* /*function*/) {}
  /// Called before the step changes host state that a later step would read. `what` continues "the
  /// step" in an error message.
  virtual void on_host_change(std::string_view /*what*/) {}
  /// Called with a tensor that is made once for all runs of the step.
  virtual void on_constant(const Tensor& /*x*/) {}
  /// Called with a function that tells whether a setting that the step has read, such as the mode
  /// of a module, is unchanged. A recording is repeated only while all such functions return true.
  virtual void on_setting(std::function<bool()> /*is_unchanged*/) {}
  /// Returns the number of the recording; positive.
  virtual int64_t number() const = 0;

  /// Returns the observer of this thread; null outside of a captured step.
  static StepObserver* current() { return detail::context.step_observer; }
  /// Notifies the observer of this thread, if there is one, of a change on the host.
  static void tell_host_change(std::string_view what) {
    if (StepObserver* step = current()) [[unlikely]]
      step->on_host_change(what);
  }
  /// Returns the number of the observer of this thread; 0 for none.
  static int64_t current_number() { return current() != nullptr ? current()->number() : 0; }

 protected:
  ~StepObserver() = default;
};

}  // namespace tapegrad
