// Finds modules and parameters that members() leaves out, and members that were replaced.
#pragma once

#include <vector>

#include "core/base/internal/step_observer.h"
#include "nn/module.h"

namespace tapegrad::nn {

/// The addresses of all modules alive. Thread-safe.
namespace live_modules {
void add(const Module* module);
void remove(const Module* module);
/// Returns the modules whose objects begin within the bytes, in ascending order.
std::vector<const Module*> within(std::span<const std::byte> bytes);
bool contains(const Module* module);
/// Number of calls of remove().
uint64_t removed();
}  // namespace live_modules

class MemberCheck {
 public:
  /// Throws ArgumentError if a module, within the object of `root` or of a module that it names, is
  /// named by no members(), and has a parameter or buffer of its own or depends on the mode.
  static void check_modules(const Module& root);
  /// For a captured step that calls the module: the step is captured again if the module gets or
  /// loses hooks, or if another variable is assigned to one of its own members.
  static void watch(const Module& module, StepObserver& step);
};

}  // namespace tapegrad::nn
