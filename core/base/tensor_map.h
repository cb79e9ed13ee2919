// Tensors by name: what models and optimizers save, and files hold.
#pragma once

#include <map>
#include <string>

#include "core/base/tensor.h"

namespace tapegrad {

using TensorMap = std::map<std::string, Tensor>;

}  // namespace tapegrad
