// Autocast: mixed precision. In an Autocast scope, ops that profit compute in a sixteen-bit float,
// and ops that need range or accuracy compute in float32. The model and its parameters stay
// float32.
//
//   Variable loss;
//   {
//     const Autocast amp(bf16);
//     loss = cross_entropy(model(x), y);
//   }
//   loss.backward();     // the gradients of float32 parameters are float32
//   optimizer.step();
//
// As in torch.autocast, the float operands of an op are cast, differentiably, before the op runs.
// Operands of float64 or of integer dtypes are not cast. docs/mixed_precision.md lists all ops:
//
//   scope's dtype      matrix products, linear, convolutions, attention, recurrent networks, prelu
//   float32            softmax, losses, norms, sums and products, exp, log, pow and similar ops
//   promoted dtype     all other ops; also cat and stack
//
// A parameter is cast once per scope, and again after it was written. float16 has a small range:
// scale the loss with optim::GradScaler. The backward pass uses the dtypes of the forward pass,
// inside or outside of a scope.
#pragma once

#include <concepts>
#include <string_view>

#include "core/base/context.h"
#include "core/base/device.h"
#include "core/base/dtype.h"

namespace tapegrad {

namespace detail {
/// Disables casting while the body of an op runs.
struct [[nodiscard]] AutocastOff : Set<&Context::autocast> {
  AutocastOff() : Set(nullptr) {}
};
}  // namespace detail

/// Enables or disables casting on this thread for the lifetime of the object. Throws DTypeError
/// unless the dtype is bf16 or f16.
class [[nodiscard]] Autocast {
 public:
  explicit Autocast(DType dtype, bool on = true);
  /// PyTorch's arguments. The scope applies to operands on any device, whatever `device` is.
  explicit Autocast(std::string_view device, DType dtype = bf16, bool on = true);
  template <std::same_as<Device> D>
  explicit Autocast(const D&, DType dtype = bf16, bool on = true) : Autocast(dtype, on) {}
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  detail::AutocastScope* own_;  // null when off
  detail::Set<&detail::Context::autocast> scope_;
};

namespace amp {
using autocast = Autocast;
}
inline bool is_autocast_enabled() { return detail::context.autocast != nullptr; }
/// Returns the dtype of this thread's scope; float32 if there is none.
DType autocast_dtype();

}  // namespace tapegrad
