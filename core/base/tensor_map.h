// Tensors by name: the content of model, optimizer and tensor files.
#pragma once

#include <map>
#include <string>

#include "core/base/tensor.h"

namespace tapegrad {

using TensorMap = std::map<std::string, Tensor>;

}  // namespace tapegrad
