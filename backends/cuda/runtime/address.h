// The address of a tensor of any dtype.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::backends::cuda {

/// Returns the address of the first element.
inline std::byte* address_of(const Tensor& x) {
  return x.storage().data() + x.layout().offset * size_of(x.dtype());
}

}  // namespace tapegrad::backends::cuda
