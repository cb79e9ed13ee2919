// Answers `nn::LSTM lstm{nullptr}`, which is libtorch's empty layer, with what to write.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::detail {

/// A constructor that takes a T and whose noexcept() calls this function is refused with a message.
template <typename T>
constexpr bool refuse_nullptr() {
  static_assert(kNever<T>,
                "nn::Linear fc{nullptr}: construct the layer where it is declared: nn::Linear "
                "fc{784, 10}");
  return true;
}

}  // namespace tapegrad::detail
