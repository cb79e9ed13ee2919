// The hooks of a node; separate from core/tape/node.h, which every user compiles.
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
  HookList<AccumulateHook> accumulated;  // on leaves
};

}  // namespace tapegrad
