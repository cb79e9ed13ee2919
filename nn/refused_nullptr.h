// Compile error for `nn::LSTM lstm{nullptr}`, libtorch's empty layer, with the spelling to use
// instead.
#pragma once

#include <concepts>
#include <cstddef>

#include "core/base/tensor.h"

namespace tapegrad::nn {

/// Parameter type of a constructor that refuses nullptr. Only nullptr converts to it, and this
/// conversion does not compile; so the constructor is declared and not defined.
class RefusedNullptr {
 public:
  /// Compilers evaluate noexcept() at each use, also in a member initialiser that is never run.
  template <std::same_as<std::nullptr_t> T>
  RefusedNullptr(T) noexcept(fail<T>());

 private:
  template <typename T>
  static constexpr bool fail() {
    static_assert(tapegrad::detail::kNever<T>,
                  "nn::Linear fc{nullptr}: construct the layer where it is declared: nn::Linear "
                  "fc{784, 10}");
    return true;
  }
};

}  // namespace tapegrad::nn
