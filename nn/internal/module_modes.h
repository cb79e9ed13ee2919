// Training and evaluation modes of the modules of a model, to be restored later.
#pragma once

#include <utility>
#include <vector>

#include "nn/module.h"

namespace tapegrad {

/// The modes of a model's modules, outer modules first.
using Modes = std::vector<std::pair<nn::Module*, bool>>;
Modes modes_of(nn::Module& model);
void restore(const Modes& modes);

}  // namespace tapegrad
