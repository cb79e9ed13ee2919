// Mixed precision: inside an Autocast the ops that gain by it compute in a sixteen-bit type, those
// that need range or accuracy in float32, although the model and its parameters stay float32.
//
//   Variable loss;
//   {
//     const Autocast amp(bf16);
//     loss = cross_entropy(model(x), y);
//   }
//   loss.backward();     // the gradients of float32 parameters are float32
//   optimizer.step();
//
// As torch.autocast does it: an op that a program calls has its float operands cast,
// differentiably, before it runs. Operands that are float64 or no floats are left as they are; for
// all the ops see docs/mixed_precision.md:
//
//   the scope's type   matrix products, linear, convolutions, attention, recurrent networks, prelu
//   float32            softmax, losses, norms, sums and products, exp, log, pow and their kin
//   by their operands  all others: the wider type, as ever; also cat and stack
//
// A parameter is cast once in a scope, until it is written. float16 has a small range: scale the
// loss, with optim::GradScaler. A backward pass computes in the types that its ops ran in, inside
// of a scope or outside.
#pragma once

#include "core/base/context.h"
#include "core/base/dtype.h"

namespace tapegrad {

namespace detail {
/// Casts nothing: for what an op consists of.
struct [[nodiscard]] AutocastOff : Set<&Context::autocast> {
  AutocastOff() : Set(nullptr) {}
};
}  // namespace detail

/// Turns casting on or off for a scope, on this thread. DTypeError unless the type is bf16 or f16.
class [[nodiscard]] Autocast {
 public:
  explicit Autocast(DType dtype, bool on = true);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  detail::AutocastScope* own_;  // null when off
  detail::Set<&detail::Context::autocast> scope_;
};

inline bool is_autocast_enabled() { return detail::context.autocast != nullptr; }
/// The type of this thread's scope; float32 outside.
DType autocast_dtype();

}  // namespace tapegrad
