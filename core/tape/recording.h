// Switches of the tape, each for a scope and for this thread: recording and inference mode.
#pragma once

#include "core/base/context.h"

namespace tapegrad {

/// Whether ops on this thread are recorded; true at first.
inline bool is_recording() { return detail::context.is_recording; }
inline bool is_inference_mode() { return detail::context.is_inference; }
/// Whether this thread runs a part of a model again, for a checkpoint (core/autograd/checkpoint.h).
/// Layers that count or average, such as BatchNorm, have then seen the batch already.
inline bool is_recomputing() { return detail::context.is_recomputing; }

/// Turns recording on or off for a scope. On has no effect in InferenceMode.
class [[nodiscard]] Recording {
 public:
  explicit Recording(bool on) : recording_(on && !is_inference_mode()) {}

 private:
  detail::Set<&detail::Context::is_recording> recording_;
};

struct [[nodiscard]] NoGrad : Recording {
  NoGrad() : Recording(false) {}
};

/// NoGrad, and more: tensors made in this mode do not count writes in place, so that none can take
/// part in a gradient later. AutogradError when a rule would save such a tensor, and when one is
/// written in place or set to require a gradient outside of the mode; clone() makes an ordinary
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
