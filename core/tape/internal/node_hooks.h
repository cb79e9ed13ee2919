// The hooks of a node, apart from core/tape/node.h: every file of every user includes that one.
#pragma once

#include "core/tape/node.h"

namespace tapegrad {

struct Node::Hooks {
  struct OutputHook {
    uint32_t output;
    GradientHook run;
  };
  HookList<OutputHook> gradient;
  HookList<NodePreHook> before;
  HookList<NodeHook> after;
  HookList<AccumulateHook> accumulated;  // of leaves
};

}  // namespace tapegrad
