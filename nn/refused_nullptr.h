// Compile error for `nn::LSTM lstm{nullptr}`, libtorch's empty layer, with the spelling to use
// instead.
#pragma once

#include "core/base/tensor.h"

namespace tapegrad::detail {

/// A constructor that takes a T and calls this function in its noexcept() gives a compile error
/// with the message.
template <typename T>
constexpr bool refuse_nullptr() {
  static_assert(kNever<T>,
                "nn::Linear fc{nullptr}: construct the layer where it is declared: nn::Linear "
                "fc{784, 10}");
  return true;
}

}  // namespace tapegrad::detail
