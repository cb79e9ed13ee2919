// Tensors that captured steps read.
#pragma once

#include <memory>

#include "core/base/tensor.h"

namespace tapegrad {

/// A tensor that is one object for all captures that read its storage. The storage has one owner
/// (TensorStorage::has_one_owner()) if only captures keep it.
using SharedOperand = std::shared_ptr<const Tensor>;

SharedOperand share_operand(const Tensor& x);

}  // namespace tapegrad
