// Finds modules and parameters that members() leaves out.
#pragma once

#include <vector>

#include "nn/module.h"

namespace tapegrad::nn {

/// The addresses of all modules alive. Thread-safe.
namespace live_modules {
void add(const Module* module);
void remove(const Module* module);
/// Returns the modules whose objects begin within the bytes, in ascending order.
std::vector<const Module*> within(std::span<const std::byte> bytes);
}  // namespace live_modules

class MemberCheck {
 public:
  /// Throws ArgumentError if a module, within the object of `root` or of a module that it names, is
  /// named by no members(), and has a parameter or buffer of its own or depends on the mode.
  static void check_modules(const Module& root);
};

}  // namespace tapegrad::nn
