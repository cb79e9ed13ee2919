// Options of Variable::backward() and zero_grad(). core/tape/variable.h includes this header.
#pragma once

#include "core/base/by_name.h"

namespace tapegrad {

/// Options of zero_grad({.set_to_none = false}).
struct ZeroGradOptions {
  ByName by_name = {};
  bool set_to_none = true;
};

struct BackwardOptions {
  bool retain_graph = false;  // keep saved tensors for another backward pass through the same graph
  bool create_graph = false;  // record the backward pass itself; implies retain_graph
};

struct BackwardInto;  // core/tape/grad.h: {.inputs = {x, w}}

}  // namespace tapegrad
