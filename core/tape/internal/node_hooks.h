// The hooks of a node; separate from core/tape/node.h, which every user compiles.
#pragma once

#include "core/tape/node.h"

namespace tapegrad {

struct TapeNode::Hooks {
  struct OutputHook {
    uint32_t output;
    GradientHook run;
  };
  HookList<OutputHook> gradient;
  HookList<NodePreHook> before;
  HookList<NodeHook> after;
  HookList<AccumulateHook> accumulated;  // on leaves
  uint32_t added = 0;                    // number of hooks added so far

  /// Returns a number that changes when a hook is added or removed.
  uint64_t state() const {
    uint64_t count = uint64_t(added) << 32;
    const auto add = [&](const auto&) { ++count; };
    gradient.each(add), before.each(add), after.each(add), accumulated.each(add);
    return count;
  }
};

}  // namespace tapegrad
