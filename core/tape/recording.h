// The switches of the tape, each for a scope and for this thread: recording, inference. The
// backward pass itself is in core/tape/internal/backward.h.
#pragma once

namespace tapegrad {

/// Whether ops on this thread are recorded; true at first.
bool is_recording();

/// Turns recording on or off for a scope, on this thread. On has no effect in InferenceMode.
class [[nodiscard]] Recording {
 public:
  explicit Recording(bool on);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  bool before_;
};

struct [[nodiscard]] NoGrad : Recording {
  NoGrad() : Recording(false) {}
};

namespace detail {
[[gnu::tls_model("initial-exec")]] extern constinit thread_local bool inference_mode;
}

/// NoGrad, and more: tensors made in it do not count the writes in place. So none can take part in
/// a gradient later: when a rule would save one, when one is written in place or is to require a
/// gradient outside of the mode, that is an AutogradError; clone() makes an ordinary tensor of it.
///
///   const InferenceMode inference;
///   Variable scores = model(images);
class [[nodiscard]] InferenceMode {
 public:
  explicit InferenceMode(bool on = true);
  ~InferenceMode();
  InferenceMode(const InferenceMode&) = delete;
  InferenceMode& operator=(const InferenceMode&) = delete;

 private:
  bool recording_before_, inference_before_;
};

inline bool is_inference_mode() { return detail::inference_mode; }

/// Whether this thread computes a part of a model again, for its gradient
/// (core/autograd/checkpoint.h). What counts or averages, as BatchNorm's statistics, has then seen
/// the batch already.
bool is_recomputing();

}  // namespace tapegrad
