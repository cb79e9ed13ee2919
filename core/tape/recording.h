// Recording and inference mode: per-thread switches of the tape, set for a scope.
#pragma once

#include "core/base/context.h"

namespace tapegrad {

/// Returns whether ops on this thread are recorded; initially true.
inline bool is_recording() { return detail::context.is_recording; }
inline bool is_inference_mode() { return detail::context.is_inference; }
/// Returns whether this thread recomputes a checkpointed part (core/autograd/checkpoint.h). Running
/// statistics, such as those of BatchNorm, must not be updated again.
inline bool is_recomputing() { return detail::context.is_recomputing; }

/// Turns recording on or off for this thread and for the lifetime of the object. Cannot turn
/// recording on in InferenceMode.
class [[nodiscard]] Recording {
 public:
  explicit Recording(bool on) : recording_(on && !is_inference_mode()) {}

 private:
  detail::Set<&detail::Context::is_recording> recording_;
};

struct [[nodiscard]] NoGrad : Recording {
  NoGrad() : Recording(false) {}
};

struct [[nodiscard]] EnableGrad : Recording {
  EnableGrad() : Recording(true) {}
};

using NoGradGuard = NoGrad;
/// PyTorch's set_grad_enabled(on).
using SetGradEnabled = Recording;
/// Calls f without recording and returns its result.
template <typename F>
decltype(auto) no_grad(F&& f) {
  const NoGrad guard;
  return f();
}

/// Calls f with recording and returns its result.
template <typename F>
decltype(auto) enable_grad(F&& f) {
  const EnableGrad guard;
  return f();
}

template <typename V = void>
void no_grad() {
  static_assert(sizeof(V*) == 0, "type `const NoGrad guard;` or no_grad([&] { ... })");
}
template <typename V = void>
void enable_grad() {
  static_assert(sizeof(V*) == 0, "type `const EnableGrad guard;` or enable_grad([&] { ... })");
}

/// Turns recording off and creates tensors that do not count in-place writes. These tensors cannot
/// take part in a gradient later: saving such a tensor for a rule, writing it in place, or making
/// it require a gradient outside of the mode throws AutogradError. clone() makes an ordinary
/// tensor.
///
///   const InferenceMode inference;
///   Variable scores = model(images);
class [[nodiscard]] InferenceMode {
 public:
  explicit InferenceMode(bool on = true) : recording_(is_recording() && !on), inference_(on) {}

 private:
  detail::Set<&detail::Context::is_recording> recording_;
  detail::Set<&detail::Context::is_inference> inference_;
};

}  // namespace tapegrad
