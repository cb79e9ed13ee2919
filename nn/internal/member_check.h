// Finds modules and parameters that members() leaves out, and members that were replaced.
#pragma once

#include <vector>

#include "core/base/internal/step_observer.h"
#include "nn/module.h"

namespace tapegrad::nn {

/// Addresses of all modules that exist. Thread-safe.
namespace live_modules {
void add(const Module* module);
void remove(const Module* module);
/// Returns the modules whose addresses are within the bytes, in ascending order.
std::vector<const Module*> within(std::span<const std::byte> bytes);
bool contains(const Module* module);
/// Returns the number of calls of remove().
uint64_t removed();
}  // namespace live_modules

class MemberCheck {
 public:
  /// Throws ArgumentError if a module stored in `root`, or in a module that `root` names, is not
  /// named by members() and has a parameter or buffer or depends on the mode.
  static void check_modules(const Module& root);
  /// Makes a captured step that calls the module record again if the module gets or loses hooks, or
  /// if another variable is assigned to one of its own members.
  static void watch(const Module& module, StepObserver& step);
};

}  // namespace tapegrad::nn
